// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <memory>

#include "base/result.h"
#include "text/chat_template.h"
#include "text/text_model.h"
#include "text/tokenizer.h"

namespace taproot::gateway {

// What the gateway needs to turn messages into token ids and back, built once per digest from the
// TextModel a worker sent. Immutable; any thread.
struct ModelText {
    std::uint64_t digest = 0;
    Tokenizer tokenizer;
    ChatTemplate chat_template;  // ChatML when the model brings none

    static Result<std::shared_ptr<const ModelText>> build(std::uint64_t digest,
                                                          const TextModel& model);
};

}  // namespace taproot::gateway
