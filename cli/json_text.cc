// SPDX-License-Identifier: Apache-2.0
#include "cli/json_text.h"

#include <boost/json/serialize.hpp>
#include <charconv>
#include <cmath>

namespace taproot::cli {
namespace {

namespace json = boost::json;

void append_double(std::string& out, double value) {
    if (!std::isfinite(value)) {
        out += "null";
        return;
    }
    // The largest double has 309 digits before the point, the smallest 324 zeros and 17 digits
    // after it.
    char digits[400];
    auto end = std::to_chars(digits, digits + sizeof digits, value, std::chars_format::fixed).ptr;
    std::string_view text(digits, static_cast<std::size_t>(end - digits));
    out += text;
    if (text.find('.') == std::string_view::npos) out += ".0";
}

void append(std::string& out, const json::value& value);

void append_array(std::string& out, const json::array& array) {
    out += '[';
    for (std::size_t i = 0; i < array.size(); ++i) {
        if (i > 0) out += ',';
        append(out, array[i]);
    }
    out += ']';
}

void append_object(std::string& out, const json::object& object) {
    out += '{';
    for (auto member = object.begin(); member != object.end(); ++member) {
        if (member != object.begin()) out += ',';
        out += json::serialize(json::string(member->key()));
        out += ':';
        append(out, member->value());
    }
    out += '}';
}

void append(std::string& out, const json::value& value) {
    if (value.is_double())
        append_double(out, value.get_double());
    else if (value.is_array())
        append_array(out, value.get_array());
    else if (value.is_object())
        append_object(out, value.get_object());
    else
        out += json::serialize(value);
}

}  // namespace

std::string json_text(const boost::json::value& value) {
    std::string out;
    append(out, value);
    return out;
}

double rounded(double value, int decimals) {
    double scale = std::pow(10.0, decimals);
    return std::round(value * scale) / scale;
}

}  // namespace taproot::cli
