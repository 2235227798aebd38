// SPDX-License-Identifier: Apache-2.0
#include "base/log.h"

#include <spdlog/sinks/stdout_color_sinks.h>
#include <spdlog/spdlog.h>

#include <atomic>

namespace taproot {
namespace {

spdlog::level::level_enum to_spdlog(LogLevel level) {
    switch (level) {
        case LogLevel::kDebug:
            return spdlog::level::debug;
        case LogLevel::kInfo:
            return spdlog::level::info;
        case LogLevel::kWarn:
            return spdlog::level::warn;
        case LogLevel::kError:
            return spdlog::level::err;
        case LogLevel::kOff:
            return spdlog::level::off;
    }
    return spdlog::level::info;
}

// Process-wide by nature: stderr is. Set before threads start, read everywhere.
std::atomic<spdlog::logger*> g_logger{nullptr};

}  // namespace

void init_log(LogLevel level, std::string_view program) {
    static std::shared_ptr<spdlog::logger> logger = [&] {
        auto made = std::make_shared<spdlog::logger>(
            std::string(program), std::make_shared<spdlog::sinks::stderr_color_sink_mt>());
        made->set_pattern("%Y-%m-%dT%H:%M:%S.%e %^%L%$ %n: %v");
        made->flush_on(spdlog::level::debug);
        return made;
    }();
    logger->set_level(to_spdlog(level));
    g_logger.store(logger.get(), std::memory_order_release);
}

bool parse_log_level(std::string_view name, LogLevel* level) {
    *level = LogLevel::kInfo;
    if (name == "debug")
        *level = LogLevel::kDebug;
    else if (name == "info")
        *level = LogLevel::kInfo;
    else if (name == "warn")
        *level = LogLevel::kWarn;
    else if (name == "error")
        *level = LogLevel::kError;
    else if (name == "off")
        *level = LogLevel::kOff;
    else
        return false;
    return true;
}

bool log_enabled(LogLevel level) noexcept {
    spdlog::logger* logger = g_logger.load(std::memory_order_acquire);
    return logger != nullptr && logger->should_log(to_spdlog(level));
}

void log_line(LogLevel level, std::string_view message) noexcept {
    spdlog::logger* logger = g_logger.load(std::memory_order_acquire);
    if (logger == nullptr) return;
    try {
        logger->log(to_spdlog(level), spdlog::string_view_t(message.data(), message.size()));
    } catch (...) {  // a log line must never fail a request
    }
}

}  // namespace taproot
