// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "text/chat_template.h"
#include "text/jinja/value.h"

namespace taproot {

// The messages of a request as this template takes them; the same value where nothing had to
// change. Dicts that change are copied (their values are shared).
jinja::Value adapt_messages(const jinja::Value& messages, const ChatTemplateTraits& traits);

// The text of a message's content: the string, or its text parts joined with newlines.
jinja::Text content_text(const jinja::Value& content);

}  // namespace taproot
