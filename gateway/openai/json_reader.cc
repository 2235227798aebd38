// SPDX-License-Identifier: Apache-2.0
#include "gateway/openai/json_reader.h"

#include <fmt/format.h>

#include <algorithm>
#include <boost/json/basic_parser_impl.hpp>
#include <boost/json/value_stack.hpp>
#include <string>
#include <vector>

namespace taproot::gateway {
namespace {

namespace json = boost::json;
using Code = boost::system::error_code;

constexpr std::size_t kEchoBytesMax = 100;
// Objects with more keys than this are checked by sorting instead of by comparing all pairs.
constexpr std::size_t kPairwiseKeysMax = 16;

// Boost's parser calls this; values build up on its value_stack, keys of open objects on ours.
struct StrictHandler {
    static constexpr std::size_t max_object_size = static_cast<std::size_t>(-1) / 64;
    static constexpr std::size_t max_array_size = static_cast<std::size_t>(-1) / 64;
    static constexpr std::size_t max_key_size = 64 * 1024;
    static constexpr std::size_t max_string_size = 0x7ffffffe;

    json::value_stack values;
    std::vector<std::string> keys;          // of all open objects, innermost last
    std::vector<std::size_t> object_begin;  // where each open object's keys begin
    std::string partial_key;
    std::string problem;  // ours; empty: the parser's own error counts

    bool fail(Code& code, std::string message) {
        problem = std::move(message);
        code = make_error_code(boost::system::errc::invalid_argument);
        return false;
    }
    bool check_text(std::string_view text, Code& code) {
        if (text.find('\0') != std::string_view::npos)
            return fail(code, "a string contains a NUL character (\\u0000)");
        return true;
    }
    bool check_duplicates(Code& code) {
        auto begin = keys.begin() + static_cast<std::ptrdiff_t>(object_begin.back());
        std::size_t count = static_cast<std::size_t>(keys.end() - begin);
        if (count > kPairwiseKeysMax) {
            std::sort(begin, keys.end());
            auto twice = std::adjacent_find(begin, keys.end());
            if (twice != keys.end()) return fail_duplicate(*twice, code);
        } else {
            for (auto a = begin; a != keys.end(); ++a)
                if (std::find(a + 1, keys.end(), *a) != keys.end()) return fail_duplicate(*a, code);
        }
        keys.erase(begin, keys.end());
        object_begin.pop_back();
        return true;
    }
    bool fail_duplicate(const std::string& key, Code& code) {
        return fail(code, fmt::format("the key '{}' appears twice in one object",
                                      key.substr(0, kEchoBytesMax)));
    }

    bool on_document_begin(Code&) { return true; }
    bool on_document_end(Code&) { return true; }
    bool on_object_begin(Code&) {
        object_begin.push_back(keys.size());
        return true;
    }
    bool on_object_end(std::size_t n, Code& code) {
        if (!check_duplicates(code)) return false;
        values.push_object(n);
        return true;
    }
    bool on_array_begin(Code&) { return true; }
    bool on_array_end(std::size_t n, Code&) {
        values.push_array(n);
        return true;
    }
    bool on_key_part(json::string_view part, std::size_t, Code&) {
        partial_key.append(part.data(), part.size());
        values.push_chars(part);
        return true;
    }
    bool on_key(json::string_view part, std::size_t, Code& code) {
        partial_key.append(part.data(), part.size());
        if (!check_text(partial_key, code)) return false;
        keys.push_back(std::move(partial_key));
        partial_key.clear();
        values.push_key(part);
        return true;
    }
    bool on_string_part(json::string_view part, std::size_t, Code& code) {
        if (!check_text({part.data(), part.size()}, code)) return false;
        values.push_chars(part);
        return true;
    }
    bool on_string(json::string_view part, std::size_t, Code& code) {
        if (!check_text({part.data(), part.size()}, code)) return false;
        values.push_string(part);
        return true;
    }
    bool on_number_part(json::string_view, Code&) { return true; }
    bool on_int64(std::int64_t number, json::string_view, Code&) {
        values.push_int64(number);
        return true;
    }
    bool on_uint64(std::uint64_t number, json::string_view, Code&) {
        values.push_uint64(number);
        return true;
    }
    bool on_double(double number, json::string_view, Code& code) {
        if (number > 1.7976931348623157e308 || number < -1.7976931348623157e308)
            return fail(code, "a number is too large for a double");
        values.push_double(number);
        return true;
    }
    bool on_bool(bool flag, Code&) {
        values.push_bool(flag);
        return true;
    }
    bool on_null(Code&) {
        values.push_null();
        return true;
    }
    bool on_comment_part(json::string_view, Code&) { return true; }
    bool on_comment(json::string_view, Code&) { return true; }
};

Error json_error(std::string message) {
    return invalid_argument("invalid JSON body: " + std::move(message));
}

std::string explain(Code code, std::size_t depth_max) {
    if (code == json::error::too_deep)
        return fmt::format("nesting is deeper than {} levels", depth_max);
    if (code == json::error::incomplete) return "it ends too early";
    if (code == json::error::extra_data) return "something follows the object";
    return code.message();
}

}  // namespace

Result<json::object> parse_json_object(std::string_view text, std::size_t depth_max) {
    json::parse_options options;
    options.max_depth = depth_max;
    json::basic_parser<StrictHandler> parser(options);
    StrictHandler& handler = parser.handler();
    handler.values.reset();
    Code code;
    std::size_t used = parser.write_some(false, text.data(), text.size(), code);
    if (!code && used < text.size()) {
        std::size_t rest = text.find_first_not_of(" \t\r\n", used);
        if (rest != std::string_view::npos) code = make_error_code(json::error::extra_data);
    }
    if (code && !handler.problem.empty()) return json_error(handler.problem);
    if (code) return json_error(fmt::format("{} (at byte {})", explain(code, depth_max), used));
    json::value value = handler.values.release();
    if (!value.is_object()) return json_error("it must be an object {...}");
    return std::move(value.get_object());
}

}  // namespace taproot::gateway
