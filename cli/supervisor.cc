// SPDX-License-Identifier: Apache-2.0
#include "cli/supervisor.h"

#include <poll.h>
#include <signal.h>
#include <sys/signalfd.h>
#include <unistd.h>

#include <algorithm>

#include "base/log.h"

namespace taproot::cli {
namespace {

constexpr double kBackoffMs = 200;
constexpr double kBackoffMsMax = 5'000;
constexpr double kGoodLifeMs = 10'000;
constexpr double kQuickEndMs = 2'000;
constexpr int kQuickEndsMax = 5;
constexpr double kStopMs = 4'000;

TimePoint now() {
    return std::chrono::steady_clock::now();
}

}  // namespace

Supervisor::Supervisor() {
    sigset_t wanted;
    sigemptyset(&wanted);
    for (int signal : {SIGTERM, SIGINT, SIGCHLD}) sigaddset(&wanted, signal);
    sigprocmask(SIG_BLOCK, &wanted, nullptr);
    signals_ = signalfd(-1, &wanted, SFD_CLOEXEC | SFD_NONBLOCK);
    TAPROOT_ASSERT(signals_ >= 0);
}

Supervisor::~Supervisor() {
    ::close(signals_);
}

void Supervisor::add(std::string name, std::vector<std::string> command, int inherited) {
    Program program;
    program.child = std::make_unique<ChildProcess>(std::move(name), std::move(command), inherited);
    programs_.push_back(std::move(program));
}

int Supervisor::run() {
    while (true) {
        if (!stopping_) start_due();
        if (stopping_ && !any_running()) break;
        wait_for_events();
        for (Program& program : programs_) program.child->copy_output();
        reap_all();
        if (stopping_ && !killed_ && now() >= kill_at_) {
            killed_ = true;
            for (Program& program : programs_) {
                if (!program.child->running()) continue;
                log_warn("{} did not stop within {} ms: killing it", program.child->name(),
                         kStopMs);
                program.child->send_signal(SIGKILL);
            }
        }
    }
    return exit_code_;
}

void Supervisor::start_due() {
    for (Program& program : programs_) {
        if (program.child->running() || now() < program.restart_at) continue;
        if (Result<void> started = program.child->start(); !started) {
            log_error("cannot start {}: {}", program.child->name(), started.error().describe());
            program.restart_at = now() + from_ms(kBackoffMsMax);
        } else {
            log_info("started {} (pid {})", program.child->name(), program.child->pid());
        }
    }
}

void Supervisor::wait_for_events() {
    std::vector<pollfd> waits{{signals_, POLLIN, 0}};
    for (Program& program : programs_)
        if (program.child->output() >= 0) waits.push_back({program.child->output(), POLLIN, 0});
    TimePoint wake = now() + from_ms(1'000);
    for (Program& program : programs_)
        if (!stopping_ && !program.child->running()) wake = std::min(wake, program.restart_at);
    if (stopping_) wake = std::min(wake, kill_at_);
    int timeout = static_cast<int>(std::clamp(to_ms(wake - now()), 1.0, 1'000.0));
    ::poll(waits.data(), waits.size(), timeout);
    signalfd_siginfo info;
    while (::read(signals_, &info, sizeof info) == static_cast<ssize_t>(sizeof info)) {
        if (info.ssi_signo == SIGCHLD) continue;
        if (!stopping_) log_info("signal {}: stopping", info.ssi_signo);
        begin_stop();
    }
}

void Supervisor::reap_all() {
    for (Program& program : programs_) {
        std::string how;
        if (!program.child->reap(&how)) continue;
        double lived_ms = to_ms(now() - program.child->started());
        if (stopping_) {
            log_info("{} ended ({})", program.child->name(), how);
            continue;
        }
        program.quick_ends = lived_ms < kQuickEndMs ? program.quick_ends + 1 : 0;
        if (program.quick_ends >= kQuickEndsMax) {
            log_error(
                "{} ended {} times within {} s of its start ({}); its last lines above say why. "
                "Stopping everything.",
                program.child->name(), kQuickEndsMax, kQuickEndMs / 1000, how);
            exit_code_ = 1;
            begin_stop();
            continue;
        }
        program.backoff_ms = lived_ms >= kGoodLifeMs || program.backoff_ms == 0
                                 ? kBackoffMs
                                 : std::min(2 * program.backoff_ms, kBackoffMsMax);
        program.restart_at = now() + from_ms(program.backoff_ms);
        log_warn("{} ended after {:.1f} s ({}); starting it again in {:.1f} s",
                 program.child->name(), lived_ms / 1000, how, program.backoff_ms / 1000);
    }
}

void Supervisor::begin_stop() {
    if (!stopping_) kill_at_ = now() + from_ms(kStopMs);
    stopping_ = true;
    for (Program& program : programs_) program.child->send_signal(SIGTERM);
}

bool Supervisor::any_running() const {
    return std::any_of(programs_.begin(), programs_.end(),
                       [](const Program& p) { return p.child->running(); });
}

}  // namespace taproot::cli
