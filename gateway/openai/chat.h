// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string_view>

#include "base/result.h"
#include "config/schema.h"
#include "gateway/openai/generate_spec.h"

namespace taproot::gateway {

// The body of POST /v1/chat/completions. Errors name the field in `where`
// ("messages[2].content"). Cost: one pass; message texts are copied once.
Result<GenerateSpec> parse_chat(std::string_view body, const config::Limits& limits);

// The body of POST /v1/completions.
Result<GenerateSpec> parse_completions(std::string_view body, const config::Limits& limits);

// `messages` and what goes with them: shared by chat and /tokenize.
class FieldReader;
void parse_chat_prompt(FieldReader& fields, ChatPrompt* prompt);

}  // namespace taproot::gateway
