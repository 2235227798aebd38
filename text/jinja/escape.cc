// SPDX-License-Identifier: Apache-2.0
#include "text/jinja/escape.h"

namespace taproot::jinja {
namespace {

std::string_view entity(char c) {
    switch (c) {
        case '&':
            return "&amp;";
        case '<':
            return "&lt;";
        case '>':
            return "&gt;";
        case '\'':
            return "&#39;";
        case '"':
            return "&#34;";
        default:
            return {};
    }
}

}  // namespace

Text escape_html(const Text& text) {
    Text out;
    text.for_each_run([&out](std::string_view run, Origin origin) {
        std::size_t done = 0;
        for (std::size_t i = 0; i < run.size(); ++i) {
            const std::string_view replacement = entity(run[i]);
            if (replacement.empty()) continue;
            out.append(run.substr(done, i - done), origin);
            out.append(replacement, origin);
            done = i + 1;
        }
        out.append(run.substr(done), origin);
    });
    out.set_markup(true);
    return out;
}

}  // namespace taproot::jinja
