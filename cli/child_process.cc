// SPDX-License-Identifier: Apache-2.0
#include "cli/child_process.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <signal.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <filesystem>

namespace taproot::cli {
namespace {

constexpr std::size_t kLineBytesMax = 16 * 1024;

// Between fork and exec only async-signal-safe calls.
[[noreturn]] void become_child(int output, int inherited, char* const* arguments, pid_t parent) {
    ::prctl(PR_SET_PDEATHSIG, SIGTERM);
    if (::getppid() != parent) ::_exit(127);  // the parent died before prctl
    sigset_t none;
    sigemptyset(&none);
    ::sigprocmask(SIG_SETMASK, &none, nullptr);
    ::setpgid(0, 0);  // Ctrl-C goes to the supervisor alone, which stops us in order
    ::dup2(output, STDOUT_FILENO);
    ::dup2(output, STDERR_FILENO);
    if (inherited >= 0) ::fcntl(inherited, F_SETFD, 0);  // not closed by execv
    ::execv(arguments[0], arguments);
    constexpr char kMessage[] = "cannot execute the program\n";
    [[maybe_unused]] ssize_t ignored = ::write(STDERR_FILENO, kMessage, sizeof kMessage - 1);
    ::_exit(127);
}

}  // namespace

ChildProcess::ChildProcess(std::string name, std::vector<std::string> command, int inherited)
    : name_(std::move(name)), command_(std::move(command)), inherited_(inherited) {}

ChildProcess::~ChildProcess() {
    if (running()) {
        ::kill(pid_, SIGKILL);
        ::waitpid(pid_, nullptr, 0);
    }
    if (output_ >= 0) ::close(output_);
}

Result<void> ChildProcess::start() {
    int pipe_ends[2];
    if (::pipe2(pipe_ends, O_CLOEXEC) != 0)
        return Error{ErrorCode::kIo, fmt::format("cannot make a pipe: {}", std::strerror(errno)),
                     name_};
    std::vector<char*> arguments;
    for (std::string& argument : command_) arguments.push_back(argument.data());
    arguments.push_back(nullptr);
    pid_t parent = ::getpid();
    pid_t child = ::fork();
    if (child == 0) become_child(pipe_ends[1], inherited_, arguments.data(), parent);
    ::close(pipe_ends[1]);
    if (child < 0) {
        ::close(pipe_ends[0]);
        return Error{ErrorCode::kIo, fmt::format("cannot fork: {}", std::strerror(errno)), name_};
    }
    if (output_ >= 0) ::close(output_);
    output_ = pipe_ends[0];
    ::fcntl(output_, F_SETFL, O_NONBLOCK);
    pid_ = child;
    started_ = std::chrono::steady_clock::now();
    return {};
}

void ChildProcess::copy_output() {
    char buffer[8192];
    while (output_ >= 0) {
        ssize_t got = ::read(output_, buffer, sizeof buffer);
        if (got < 0 && errno == EINTR) continue;
        if (got < 0) return;  // nothing more now
        if (got == 0) {
            if (!partial_.empty()) print_line(std::exchange(partial_, {}));
            ::close(output_);
            output_ = -1;
            return;
        }
        partial_.append(buffer, static_cast<std::size_t>(got));
        std::size_t begin = 0, end;
        while ((end = partial_.find('\n', begin)) != std::string::npos) {
            print_line(partial_.substr(begin, end - begin));
            begin = end + 1;
        }
        partial_.erase(0, begin);
        if (partial_.size() > kLineBytesMax) print_line(std::exchange(partial_, {}));
    }
}

void ChildProcess::print_line(const std::string& line) const {
    fmt::print(stderr, "[{}] {}\n", name_, line);
}

bool ChildProcess::reap(std::string* how) {
    if (!running()) return false;
    int status = 0;
    if (::waitpid(pid_, &status, WNOHANG) != pid_) return false;
    copy_output();
    *how = WIFEXITED(status)
               ? fmt::format("exit code {}", WEXITSTATUS(status))
               : fmt::format("signal {} ({})", WTERMSIG(status), strsignal(WTERMSIG(status)));
    pid_ = -1;
    return true;
}

void ChildProcess::send_signal(int signal) {
    if (running()) ::kill(pid_, signal);
}

Result<std::string> program_folder() {
    std::error_code error;
    std::filesystem::path self = std::filesystem::read_symlink("/proc/self/exe", error);
    if (error)
        return Error{ErrorCode::kIo, "cannot find this program's own folder: " + error.message()};
    return self.parent_path().string();
}

}  // namespace taproot::cli
