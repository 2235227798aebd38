// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "text/jinja/callable.h"
#include "text/jinja/text.h"

namespace taproot::jinja {

// str.format. Throws what Python throws for a bad format or missing argument.
Text format_braces(const Text& format, const CallArgs& args, bool strict_sandbox);

}  // namespace taproot::jinja
