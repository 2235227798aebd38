// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "base/result.h"
#include "text/text_model.h"
#include "worker/model/gguf.h"

namespace taproot {

// Copies tokenizer.* into plain data and proves what the tokenizer relies on: lengths agree, types
// are known, token texts are unique, merges name tokens, special ids lie in the vocabulary, a
// beginning-of-sequence token exists where one is to be added. A missing end-of-sequence id is only
// a warning: generation then ends by length. Errors: kInvalidArgument naming key and values;
// kUnsupported for tokenizers other than byte-level BPE ("gpt2"). Cost: about 20 ms for 49 152
// tokens.
Result<TextModel> text_model_from_gguf(const GgufFile& file);

}  // namespace taproot
