// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <optional>
#include <string>
#include <string_view>

#include "base/result.h"
#include "gateway/http/message.h"

namespace taproot::gateway {

// An error as the OpenAI API words it. The only place where an ErrorCode meets an HTTP status.
struct ApiError {
    int status = 500;
    std::string message;               // for the client; bounded, valid UTF-8, no internals
    std::string type;                  // "invalid_request_error", "rate_limit_error", ...
    std::optional<std::string> param;  // the field at fault, "messages[0].content"
    std::optional<std::string> code;   // "context_length_exceeded", "model_not_found", ...
    std::optional<double> retry_after_ms = {};
    // Only for context_length_exceeded.
    std::optional<std::uint32_t> prompt_tokens = {};
    std::optional<std::uint32_t> context_tokens = {};
};

// Maps by code: kInvalidArgument 400, kContextLengthExceeded 400, kUnauthorized 401, kNotFound 404,
// kTooLarge 413, kQueueFull 429, kUnavailable 503, kDeadline 504, kUnsupported 400, rest 500.
// error.where becomes `param` for 4xx. Internal messages are not shown: they go to the log.
ApiError to_api_error(const Error& error);

// {"error":{"message","type","param","code"}}: all four members, always.
std::string error_body(const ApiError& error);
// With Retry-After (whole seconds, at least 1) and retry-after-ms where known.
HttpResponse error_response(const ApiError& error);

// For errors that arise in gateway/http before a handler runs.
HttpResponse render_http_error(int status, std::string_view message);

// At most `bytes` of `text`, cut at a character; invalid UTF-8 becomes '?'. For echoing input.
std::string bounded_echo(std::string_view text, std::size_t bytes = 200);

}  // namespace taproot::gateway
