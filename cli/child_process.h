// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <sys/types.h>

#include <string>
#include <vector>

#include "base/clock.h"
#include "base/result.h"

namespace taproot::cli {

// A child program whose output we read: stdout and stderr arrive on one pipe. It gets SIGTERM when
// we die, however we die. Owner: the supervising thread.
class ChildProcess {
public:
    // `inherited`: a descriptor that the child keeps under its number; -1: none.
    ChildProcess(std::string name, std::vector<std::string> command, int inherited = -1);
    ~ChildProcess();  // kills what still runs
    ChildProcess(const ChildProcess&) = delete;
    ChildProcess& operator=(const ChildProcess&) = delete;

    Result<void> start();
    [[nodiscard]] bool running() const { return pid_ > 0; }
    [[nodiscard]] pid_t pid() const { return pid_; }
    [[nodiscard]] int output() const { return output_; }  // poll this; -1 when closed
    [[nodiscard]] const std::string& name() const { return name_; }
    [[nodiscard]] TimePoint started() const { return started_; }

    // Prints what arrived, whole lines only, each with the name in front.
    void copy_output();
    // Takes the exit status when it has ended; "exit code 3" or "signal 9".
    bool reap(std::string* how);
    void send_signal(int signal);

private:
    void print_line(const std::string& line) const;

    std::string name_;
    std::vector<std::string> command_;
    int inherited_;
    pid_t pid_ = -1;
    int output_ = -1;
    std::string partial_;
    TimePoint started_;
};

// The folder of the running program, where its siblings are.
Result<std::string> program_folder();

}  // namespace taproot::cli
