// SPDX-License-Identifier: Apache-2.0
#include "gateway/openai/errors.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "base/log.h"
#include "gateway/openai/json_writer.h"

namespace taproot::gateway {
namespace {

constexpr std::size_t kMessageBytesMax = 2048;
constexpr double kDefaultRetryAfterMs = 1000;

// The length of the valid UTF-8 character at text[i], or 0.
std::size_t character_length(std::string_view text, std::size_t i) {
    auto byte = [&](std::size_t k) { return static_cast<unsigned char>(text[k]); };
    unsigned char first = byte(i);
    if (first < 0x80) return 1;
    std::size_t length = first >= 0xC2 && first < 0xE0   ? 2
                         : first >= 0xE0 && first < 0xF0 ? 3
                         : first >= 0xF0 && first < 0xF5 ? 4
                                                         : 0;
    if (length == 0 || i + length > text.size()) return 0;
    for (std::size_t k = 1; k < length; ++k)
        if ((byte(i + k) & 0xC0) != 0x80) return 0;
    unsigned char second = byte(i + 1);
    bool bad = (first == 0xE0 && second < 0xA0) || (first == 0xED && second >= 0xA0) ||
               (first == 0xF0 && second < 0x90) || (first == 0xF4 && second >= 0x90);
    return bad ? 0 : length;
}

std::string_view type_for(int status) {
    switch (status) {
        case 401:
            return "authentication_error";
        case 404:
            return "not_found_error";
        case 429:
            return "rate_limit_error";
        default:
            return status < 500 ? "invalid_request_error" : "server_error";
    }
}

ApiError make(int status, const Error& error, std::optional<std::string> code) {
    ApiError out;
    out.status = status;
    out.message = error.message;
    out.type = type_for(status);
    if (status < 500 && !error.where.empty()) out.param = error.where;
    out.code = std::move(code);
    return out;
}

}  // namespace

std::string bounded_echo(std::string_view text, std::size_t bytes) {
    std::string out;
    for (std::size_t i = 0; i < text.size();) {
        std::size_t length = character_length(text, i);
        if (out.size() + std::max<std::size_t>(length, 1) > bytes) return out + "...";
        if (length == 0)
            out += '?';
        else
            out.append(text, i, length);
        i += std::max<std::size_t>(length, 1);
    }
    return out;
}

ApiError to_api_error(const Error& error) {
    switch (error.code) {
        case ErrorCode::kInvalidArgument:
            return make(400, error, std::nullopt);
        case ErrorCode::kUnsupported:
            return make(400, error, "unsupported_parameter");
        case ErrorCode::kContextLengthExceeded:
            return make(400, error, "context_length_exceeded");
        case ErrorCode::kUnauthorized:
            return make(401, error, "invalid_api_key");
        case ErrorCode::kNotFound:
            return make(404, error, "model_not_found");
        case ErrorCode::kTooLarge:
            return make(413, error, "request_too_large");
        case ErrorCode::kQueueFull: {
            ApiError out = make(429, error, "queue_full");
            out.retry_after_ms = kDefaultRetryAfterMs;
            return out;
        }
        case ErrorCode::kUnavailable: {
            ApiError out = make(503, error, "no_available_workers");
            out.retry_after_ms = kDefaultRetryAfterMs;
            return out;
        }
        case ErrorCode::kDeadline:
            return make(504, error, "timeout");
        case ErrorCode::kCancelled:
            return make(499, error, "cancelled");
        case ErrorCode::kDataLoss:
        case ErrorCode::kIo:
        case ErrorCode::kInternal:
            break;
    }
    log_error("internal error answered with 500: {}", error.describe());
    ApiError out = make(500, error, "internal_error");
    out.message = "internal error; the server's log has details";
    return out;
}

std::string error_body(const ApiError& error) {
    std::string out = "{\"error\":{\"message\":";
    append_json_string(out, bounded_echo(error.message, kMessageBytesMax));
    out += ",\"type\":";
    append_json_string(out, error.type);
    auto optional_member = [&](std::string_view name, const std::optional<std::string>& value) {
        out += ",\"";
        out += name;
        out += "\":";
        if (value)
            append_json_string(out, bounded_echo(*value));
        else
            out += "null";
    };
    optional_member("param", error.param);
    optional_member("code", error.code);
    if (error.prompt_tokens)
        fmt::format_to(std::back_inserter(out), ",\"n_prompt_tokens\":{}", *error.prompt_tokens);
    if (error.context_tokens)
        fmt::format_to(std::back_inserter(out), ",\"n_ctx\":{}", *error.context_tokens);
    out += "}}";
    return out;
}

HttpResponse error_response(const ApiError& error) {
    HttpResponse response;
    response.status = error.status;
    response.body = error_body(error);
    if (error.retry_after_ms) {
        double ms = std::clamp(*error.retry_after_ms, 1.0, 120'000.0);
        response.headers.emplace_back("Retry-After",
                                      fmt::format("{}", static_cast<int>(std::ceil(ms / 1000))));
        response.headers.emplace_back("retry-after-ms",
                                      fmt::format("{}", static_cast<int>(std::ceil(ms))));
    }
    if (error.status == 401) response.headers.emplace_back("WWW-Authenticate", "Bearer");
    return response;
}

HttpResponse render_http_error(int status, std::string_view message) {
    ApiError error;
    error.status = status;
    error.message = std::string(message);
    error.type = type_for(status);
    if (status == 404) error.code = "unknown_url";
    if (status == 503) error.retry_after_ms = kDefaultRetryAfterMs;
    return error_response(error);
}

}  // namespace taproot::gateway
