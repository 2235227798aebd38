// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <functional>

#include "text/chat_template.h"

namespace taproot {

// Finds out what a template takes by rendering small conversations through `render` (which adapts
// nothing yet). A template that refuses every probe has the default traits.
ChatTemplateTraits probe_traits(
    const std::function<Result<jinja::Text>(const ChatRequest&)>& render);

}  // namespace taproot
