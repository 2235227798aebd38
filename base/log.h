// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <fmt/format.h>

#include <memory>
#include <string>
#include <string_view>

namespace taproot {

enum class LogLevel { kDebug, kInfo, kWarn, kError, kOff };

// Sets the process-wide sink (stderr) once; later calls only change the level. Thread-safe.
// `program` prefixes each line, so that lines of several processes stay apart in one terminal.
void init_log(LogLevel level, std::string_view program);

// "debug", "info", "warn", "error", "off"; anything else is kInfo and false.
bool parse_log_level(std::string_view name, LogLevel* level);

// Writes one line. A formatting failure can never fail the caller. Thread-safe; about 1 us.
void log_line(LogLevel level, std::string_view message) noexcept;
bool log_enabled(LogLevel level) noexcept;

template <typename... Args>
void log_debug(fmt::format_string<Args...> format, Args&&... args) {
    if (log_enabled(LogLevel::kDebug))
        log_line(LogLevel::kDebug, fmt::format(format, std::forward<Args>(args)...));
}
template <typename... Args>
void log_info(fmt::format_string<Args...> format, Args&&... args) {
    if (log_enabled(LogLevel::kInfo))
        log_line(LogLevel::kInfo, fmt::format(format, std::forward<Args>(args)...));
}
template <typename... Args>
void log_warn(fmt::format_string<Args...> format, Args&&... args) {
    if (log_enabled(LogLevel::kWarn))
        log_line(LogLevel::kWarn, fmt::format(format, std::forward<Args>(args)...));
}
template <typename... Args>
void log_error(fmt::format_string<Args...> format, Args&&... args) {
    if (log_enabled(LogLevel::kError))
        log_line(LogLevel::kError, fmt::format(format, std::forward<Args>(args)...));
}

}  // namespace taproot
