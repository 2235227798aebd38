// SPDX-License-Identifier: Apache-2.0
#include "gateway/openai/json_writer.h"

#include <fmt/format.h>

#include <cmath>

namespace taproot::gateway {

void append_json_string(std::string& out, std::string_view text) {
    static constexpr char kHex[] = "0123456789abcdef";
    out += '"';
    std::size_t copied = 0;
    for (std::size_t i = 0; i < text.size(); ++i) {
        auto c = static_cast<unsigned char>(text[i]);
        if (c >= 0x20 && c != '"' && c != '\\' && c != 0x7f) continue;
        out.append(text, copied, i - copied);
        copied = i + 1;
        switch (c) {
            case '"':
                out += "\\\"";
                break;
            case '\\':
                out += "\\\\";
                break;
            case '\n':
                out += "\\n";
                break;
            case '\r':
                out += "\\r";
                break;
            case '\t':
                out += "\\t";
                break;
            case '\b':
                out += "\\b";
                break;
            case '\f':
                out += "\\f";
                break;
            default:
                out += "\\u00";
                out += kHex[c >> 4];
                out += kHex[c & 15];
        }
    }
    out.append(text, copied, text.size() - copied);
    out += '"';
}

void append_json_number(std::string& out, std::int64_t number) {
    fmt::format_to(std::back_inserter(out), "{}", number);
}

void append_json_number(std::string& out, double number) {
    if (!std::isfinite(number)) number = -9999.0;
    std::size_t begin = out.size();
    fmt::format_to(std::back_inserter(out), "{}", number);
    // Keep floats recognisable as floats ("-3" -> "-3.0").
    if (out.find_first_of(".e", begin) == std::string::npos) out += ".0";
}

}  // namespace taproot::gateway
