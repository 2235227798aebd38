// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <vector>

#include "text/jinja/callable.h"

namespace taproot::jinja {

// Filters that compare or add items.
Value filter_dictsort(Interpreter&, const Value& input, const CallArgs& args);
Value filter_groupby(Interpreter&, const Value& input, const CallArgs& args);
Value filter_max(Interpreter&, const Value& input, const CallArgs& args);
Value filter_min(Interpreter&, const Value& input, const CallArgs& args);
Value filter_sort(Interpreter&, const Value& input, const CallArgs& args);
Value filter_sum(Interpreter&, const Value& input, const CallArgs& args);
Value filter_unique(Interpreter&, const Value& input, const CallArgs& args);

// A list the template may change; a generator that prints as `function`'s.
Value new_list(std::vector<Value> items);
Value new_generator(std::vector<Value> items, const char* function);

}  // namespace taproot::jinja
