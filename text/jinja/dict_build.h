// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "text/jinja/callable.h"
#include "text/jinja/value.h"

namespace taproot::jinja {

// What dict(...), dict.update(...) and namespace(...) accept: at most one mapping or sequence of
// pairs, then keywords. Later keys win.
void fill_dict(DictData& dict, const char* callee, const CallArgs& args);

}  // namespace taproot::jinja
