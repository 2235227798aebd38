// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "config/schema.h"
#include "gateway/openai/field_reader.h"
#include "gateway/openai/generate_spec.h"

namespace taproot::gateway {

// Fields that chat and completions share: model, sampling, stop, stream, n, and vLLM's extensions.
// Problems are recorded in `fields`.
void parse_common_fields(FieldReader& fields, const config::Limits& limits, GenerateSpec* spec);

// Refuses fields that would change the text but that we do not do (tools, response_format, ...),
// when they carry anything but their neutral value. Everything else unknown is ignored and logged
// once per name. Call last.
void settle_other_fields(FieldReader& fields);

// JSON to a template value; strings are user text. REQUIRES: depth already bounded by the parser.
jinja::Value to_template_value(const boost::json::value& value);

}  // namespace taproot::gateway
