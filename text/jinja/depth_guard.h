// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "text/jinja/interpreter.h"
#include "text/jinja/raise.h"

namespace taproot::jinja {

// Counts nested evaluations, so that endless recursion is an error and not a stack overflow.
struct Interpreter::DepthGuard {
    explicit DepthGuard(Interpreter& interpreter) : interpreter_(interpreter) {
        if (interpreter_.depth_ >= interpreter_.options_.limits.call_depth) {
            raise_limit("the template recurses too deeply");
        }
        ++interpreter_.depth_;
    }
    ~DepthGuard() { --interpreter_.depth_; }
    DepthGuard(const DepthGuard&) = delete;
    DepthGuard& operator=(const DepthGuard&) = delete;

    Interpreter& interpreter_;
};

}  // namespace taproot::jinja
