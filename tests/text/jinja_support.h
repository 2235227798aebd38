// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <gtest/gtest.h>

#include <ctime>
#include <string>
#include <string_view>

#include "text/jinja/json.h"
#include "text/jinja/template.h"

namespace taproot::jinja::testing {

// 2026-11-30 12:00, a Monday: the day the golden renderings were made on.
inline std::tm golden_day() {
    std::tm day{};
    day.tm_year = 126;
    day.tm_mon = 10;
    day.tm_mday = 30;
    day.tm_hour = 12;
    day.tm_wday = 1;
    day.tm_yday = 333;
    return day;
}

inline RenderOptions strict_options() {
    RenderOptions options;
    options.now = golden_day;
    options.strict_sandbox = true;
    return options;
}

inline Value json(std::string_view text, Origin origin = Origin::kUser) {
    Result<Value> value = parse_json(text, origin);
    EXPECT_TRUE(value) << value.error().describe();
    return value ? std::move(value).value() : Value::none();
}

inline Result<Text> try_render(std::string_view source, const Value& context,
                               const RenderOptions& options = {}) {
    Result<Template> parsed = Template::parse(source);
    if (!parsed) return std::move(parsed).error();
    return parsed->render(context, options);
}

// The rendered text, or "ERROR ..." so that a comparison shows it.
inline std::string render(std::string_view source, const Value& context = Value::dict(),
                          const RenderOptions& options = {}) {
    Result<Text> text = try_render(source, context, options);
    return text ? text->bytes() : "ERROR " + text.error().describe();
}

// The text with what users wrote in [[ ]].
inline std::string marked(const Text& text) {
    std::string out;
    text.for_each_run([&out](std::string_view run, Origin origin) {
        out += origin == Origin::kUser ? "[[" + std::string(run) + "]]" : std::string(run);
    });
    return out;
}

}  // namespace taproot::jinja::testing
