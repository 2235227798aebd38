// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <gtest/gtest.h>

#include <boost/asio/co_spawn.hpp>
#include <boost/asio/detached.hpp>
#include <boost/asio/io_context.hpp>
#include <chrono>
#include <cstdlib>
#include <filesystem>
#include <optional>
#include <string>
#include <utility>

#include "base/net/aliases.h"

// Drives one io_context from a test, without sleeping: handlers run until a condition holds. The
// deadline only bounds a broken test.
namespace taproot {

inline constexpr std::chrono::seconds kTestDeadline{30};

template <typename Condition>
[[nodiscard]] bool run_until(asio::io_context& io, Condition&& condition) {
    auto deadline = std::chrono::steady_clock::now() + kTestDeadline;
    while (!condition()) {
        if (std::chrono::steady_clock::now() >= deadline) return false;
        io.restart();
        io.run_one_until(deadline);
    }
    return true;
}

template <typename T>
Awaitable<void> store_result(Awaitable<T> awaitable, std::optional<T>* out) {
    out->emplace(co_await std::move(awaitable));
}

// Runs until an awaitable has a value.
template <typename T>
T await(asio::io_context& io, Awaitable<T> awaitable) {
    std::optional<T> out;
    asio::co_spawn(io, store_result(std::move(awaitable), &out), asio::detached);
    if (!run_until(io, [&out] { return out.has_value(); })) std::abort();
    return std::move(*out);
}

// A folder for socket files, gone at the end.
class TempFolder {
public:
    TempFolder() {
        std::string path = (std::filesystem::temp_directory_path() / "taproot-XXXXXX").string();
        if (::mkdtemp(path.data()) == nullptr) std::abort();
        path_ = path;
    }
    ~TempFolder() { std::filesystem::remove_all(path_); }
    TempFolder(const TempFolder&) = delete;
    TempFolder& operator=(const TempFolder&) = delete;
    [[nodiscard]] std::string file(const char* name) const { return path_ + "/" + name; }

private:
    std::string path_;
};

}  // namespace taproot
