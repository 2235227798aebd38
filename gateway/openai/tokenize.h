// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "base/net/aliases.h"
#include "gateway/http/exchange.h"
#include "gateway/pipeline/generate.h"

namespace taproot::gateway {

// POST /tokenize: vLLM's {prompt | messages, add_special_tokens, return_token_strs, ...} and
// llama-server's {content, add_special, with_pieces}; the answer has the fields of both.
Awaitable<void> tokenize(PipelineContext& context, Exchange& exchange);

// POST /detokenize: {tokens} -> {prompt, content}.
Awaitable<void> detokenize(PipelineContext& context, Exchange& exchange);

}  // namespace taproot::gateway
