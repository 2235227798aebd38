// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <cstdint>
#include <ctime>
#include <functional>

namespace taproot::jinja {

// What one rendering may use. Reaching a limit is an Error (kTooLarge), never growth or a crash.
struct Limits {
    std::uint64_t steps = 5'000'000;        // expressions, statements, items looked at
    std::uint64_t work_bytes = 512U << 20;  // bytes of all strings made on the way
    std::size_t output_bytes = 64U << 20;   // rendered text
    int call_depth = 600;                   // nested evaluations, macros included
};

struct RenderOptions {
    Limits limits = {};
    // Local time for strftime_now; empty: the system clock. Injected so that a prompt can be pinned
    // to a day and stay cacheable.
    std::function<std::tm()> now = {};
    // True: refuse what transformers' sandbox refuses (append and pop on lists, tojson of a
    // generator). False: accept it, on values that the template itself made.
    bool strict_sandbox = false;
};

}  // namespace taproot::jinja
