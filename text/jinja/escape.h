// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "text/jinja/text.h"

namespace taproot::jinja {

// & < > ' " as HTML entities; the result is markup. Origins are kept.
Text escape_html(const Text& text);

}  // namespace taproot::jinja
