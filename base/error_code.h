// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>

namespace taproot {

// Every way an operation can fail, by meaning. HTTP status codes live in gateway/openai/errors.cc
// only.
enum class ErrorCode : std::uint8_t {
    kInvalidArgument,        // the caller's value is malformed or out of its stated range
    kContextLengthExceeded,  // prompt (plus what it asks for) is longer than the model's context
    kUnauthorized,           // key missing or wrong
    kNotFound,               // the named model, worker, file or request does not exist
    kTooLarge,               // a size limit of the configuration was reached (body, header, line)
    kQueueFull,              // a bounded queue is full; try again after the stated time
    kUnavailable,            // nothing can serve this now (starting, draining, all workers down)
    kUnsupported,            // understood, but this build or model cannot do it
    kCancelled,              // the caller went away or asked to stop
    kDeadline,               // a time limit of the configuration passed
    kDataLoss,               // stored or received bytes fail a check (checksum, length, version)
    kIo,                     // the operating system refused (file, socket, memory map)
    kInternal,               // we broke a rule of our own; always worth a bug report
};

constexpr const char* to_string(ErrorCode code) {
    switch (code) {
        case ErrorCode::kInvalidArgument:
            return "invalid_argument";
        case ErrorCode::kContextLengthExceeded:
            return "context_length_exceeded";
        case ErrorCode::kUnauthorized:
            return "unauthorized";
        case ErrorCode::kNotFound:
            return "not_found";
        case ErrorCode::kTooLarge:
            return "too_large";
        case ErrorCode::kQueueFull:
            return "queue_full";
        case ErrorCode::kUnavailable:
            return "unavailable";
        case ErrorCode::kUnsupported:
            return "unsupported";
        case ErrorCode::kCancelled:
            return "cancelled";
        case ErrorCode::kDeadline:
            return "deadline";
        case ErrorCode::kDataLoss:
            return "data_loss";
        case ErrorCode::kIo:
            return "io";
        case ErrorCode::kInternal:
            return "internal";
    }
    return "unknown";
}

}  // namespace taproot
