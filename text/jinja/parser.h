// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string_view>

#include "base/result.h"
#include "text/jinja/ast.h"

namespace taproot::jinja {

// Deepest nesting of a template: expressions and blocks together. Evaluation recurses along it.
inline constexpr int kMaxTemplateDepth = 200;

// Parses a template with Jinja's grammar and precedence (`not x is y` is `not (x is y)`, filters
// bind before `+`, `**` associates to the left). Not supported, as no chat template uses them:
// extends, block, include, import, autoescape. Errors: kInvalidArgument, where = "line N".
Result<Program> parse_template(std::string_view source);

}  // namespace taproot::jinja
