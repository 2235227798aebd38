// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>
#include <utility>
#include <variant>

#include "base/assert.h"
#include "base/error_code.h"

namespace taproot {

// What went wrong, in words for a person. `where` names the field, key, file or offset at fault
// ("temperature", "gateway.yaml:12:3", "tensor 'blk.0.attn_q.weight'"); may be empty.
struct Error {
    ErrorCode code = ErrorCode::kInternal;
    std::string message;
    std::string where = {};

    // "where: message", or only the message when no place is known.
    [[nodiscard]] std::string describe() const {
        return where.empty() ? message : where + ": " + message;
    }
};

// A value or an Error. Member names follow std::expected (absent from C++20's library), so that
// this class can become an alias of it later. Reading the wrong side is a bug and aborts.
template <typename T>
class [[nodiscard]] Result {
public:
    Result(T value) : state_(std::in_place_index<0>, std::move(value)) {}      // NOLINT: implicit
    Result(Error error) : state_(std::in_place_index<1>, std::move(error)) {}  // NOLINT: implicit

    [[nodiscard]] bool has_value() const { return state_.index() == 0; }
    explicit operator bool() const { return has_value(); }

    [[nodiscard]] T& value() & {
        TAPROOT_ASSERT(has_value());
        return *std::get_if<0>(&state_);
    }
    [[nodiscard]] const T& value() const& {
        TAPROOT_ASSERT(has_value());
        return *std::get_if<0>(&state_);
    }
    [[nodiscard]] T&& value() && {
        TAPROOT_ASSERT(has_value());
        return std::move(*std::get_if<0>(&state_));
    }
    T& operator*() & { return value(); }
    const T& operator*() const& { return value(); }
    T&& operator*() && { return std::move(*this).value(); }
    T* operator->() { return &value(); }
    const T* operator->() const { return &value(); }

    [[nodiscard]] Error& error() & {
        TAPROOT_ASSERT(!has_value());
        return *std::get_if<1>(&state_);
    }
    [[nodiscard]] const Error& error() const& {
        TAPROOT_ASSERT(!has_value());
        return *std::get_if<1>(&state_);
    }
    [[nodiscard]] Error&& error() && {
        TAPROOT_ASSERT(!has_value());
        return std::move(*std::get_if<1>(&state_));
    }

    // Drops the outcome on purpose; `reason` documents why at the call.
    void ignore([[maybe_unused]] const char* reason) const {}

private:
    std::variant<T, Error> state_;
};

template <>
class [[nodiscard]] Result<void> {
public:
    Result() = default;
    Result(Error error) : error_(std::move(error)), failed_(true) {}  // NOLINT: implicit

    [[nodiscard]] bool has_value() const { return !failed_; }
    explicit operator bool() const { return has_value(); }
    [[nodiscard]] const Error& error() const& {
        TAPROOT_ASSERT(failed_);
        return error_;
    }
    [[nodiscard]] Error&& error() && {
        TAPROOT_ASSERT(failed_);
        return std::move(error_);
    }
    void ignore([[maybe_unused]] const char* reason) const {}

private:
    Error error_;
    bool failed_ = false;
};

inline Error invalid_argument(std::string message, std::string where = {}) {
    return Error{ErrorCode::kInvalidArgument, std::move(message), std::move(where)};
}

}  // namespace taproot

#define TAPROOT_CONCAT_INNER(a, b) a##b
#define TAPROOT_CONCAT(a, b) TAPROOT_CONCAT_INNER(a, b)

// TAPROOT_TRY(auto x, f()): declares x from f()'s value, or returns f()'s error from this function.
#define TAPROOT_TRY(declaration, expression)                                                       \
    auto TAPROOT_CONCAT(try_, __LINE__) = (expression);                                            \
    if (!TAPROOT_CONCAT(try_, __LINE__)) return std::move(TAPROOT_CONCAT(try_, __LINE__)).error(); \
    declaration = std::move(TAPROOT_CONCAT(try_, __LINE__)).value()

// TAPROOT_CHECK_OK(f()): for Result<void>.
#define TAPROOT_CHECK_OK(expression)                                     \
    do {                                                                 \
        auto taproot_checked = (expression);                             \
        if (!taproot_checked) return std::move(taproot_checked).error(); \
    } while (false)
