// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <functional>
#include <memory>
#include <vector>

#include "base/clock.h"
#include "cli/child_process.h"

namespace taproot::cli {

// Keeps a set of programs running: starts them, prefixes what they print, restarts one that ends
// (backoff 0.2 s doubling to 5 s, back to 0.2 s after ten good seconds), and stops all on SIGTERM
// or SIGINT: SIGTERM first, SIGKILL after 4 s. One that keeps ending within two seconds of its
// start is given up after five times, and everything is stopped: a broken deployment must not look
// alive. Owner: the main thread; blocks SIGTERM, SIGINT and SIGCHLD for it.
class Supervisor {
public:
    Supervisor();
    ~Supervisor();

    // `inherited`: a descriptor that the program keeps, also when started again; -1: none.
    void add(std::string name, std::vector<std::string> command, int inherited = -1);
    // Returns the exit code of the whole: 0 after a signal, 1 when a program was given up.
    int run();

private:
    struct Program {
        std::unique_ptr<ChildProcess> child;
        TimePoint restart_at{};
        double backoff_ms = 0;
        int quick_ends = 0;
    };

    void start_due();
    void reap_all();
    void wait_for_events();
    void begin_stop();
    [[nodiscard]] bool any_running() const;

    std::vector<Program> programs_;
    int signals_ = -1;
    bool stopping_ = false;
    bool killed_ = false;
    TimePoint kill_at_{};
    int exit_code_ = 0;
};

}  // namespace taproot::cli
