// SPDX-License-Identifier: Apache-2.0
#include "gateway/openai/parse_common.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <charconv>
#include <limits>
#include <mutex>
#include <unordered_set>

#include "base/log.h"
#include "gateway/openai/errors.h"

namespace taproot::gateway {
namespace {

namespace json = boost::json;

constexpr std::int64_t kInt32Max = std::numeric_limits<std::int32_t>::max();
// Beyond any context: refused later, with the context's length in the message.
constexpr std::int64_t kTokensMax = std::numeric_limits<std::int64_t>::max();
constexpr std::size_t kNameBytesMax = 512;
constexpr std::size_t kSaltBytesMax = 128;
constexpr std::size_t kStopTokensMax = 128;
constexpr std::size_t kLoggedNamesMax = 256;

float to_float(double value) {
    return static_cast<float>(value);
}

void parse_stop(FieldReader& fields, const config::Limits& limits, GenerateSpec* spec) {
    const json::value* value = fields.find("stop");
    if (value == nullptr) return;
    auto add = [&](const json::value& one) {
        if (!one.is_string()) {
            fields.fail("stop", fmt::format("'stop' must hold strings, not {}", json_kind(one)));
            return;
        }
        const json::string& text = one.get_string();
        if (text.empty() || text.size() > limits.stop_bytes) {
            fields.fail("stop",
                        fmt::format("each stop string must have 1..{} bytes", limits.stop_bytes));
            return;
        }
        spec->stop.emplace_back(text.data(), text.size());
    };
    if (value->is_string()) {
        add(*value);
    } else if (value->is_array()) {
        if (value->get_array().size() > limits.stop_strings) {
            fields.fail("stop",
                        fmt::format("'stop' may hold at most {} strings", limits.stop_strings));
            return;
        }
        for (const json::value& one : value->get_array()) {
            if (!fields.ok()) return;
            add(one);
        }
    } else {
        fields.fail("stop", fmt::format("'stop' must be a string or an array of strings, not {}",
                                        json_kind(*value)));
    }
}

void parse_logit_bias(FieldReader& fields, const config::Limits& limits, GenerateSpec* spec) {
    const json::object* map = fields.object("logit_bias");
    if (map == nullptr) return;
    if (map->size() > limits.logit_bias) {
        fields.fail("logit_bias",
                    fmt::format("'logit_bias' may hold at most {} entries", limits.logit_bias));
        return;
    }
    for (const auto& member : *map) {
        std::string_view key(member.key().data(), member.key().size());
        std::int32_t token = -1;
        auto [end, error] = std::from_chars(key.data(), key.data() + key.size(), token);
        if (error != std::errc() || end != key.data() + key.size() || token < 0) {
            fields.fail("logit_bias", fmt::format("'logit_bias' keys must be token ids, not '{}'",
                                                  bounded_echo(key, 40)));
            return;
        }
        double bias = member.value().is_number() ? member.value().to_number<double>() : 1e9;
        if (!(bias >= -100 && bias <= 100)) {
            fields.fail(
                "logit_bias",
                fmt::format("'logit_bias' of token {} must be a number in -100..100", token));
            return;
        }
        spec->sampling.logit_bias.push_back({token, to_float(bias)});
    }
    std::sort(spec->sampling.logit_bias.begin(), spec->sampling.logit_bias.end(),
              [](const auto& a, const auto& b) { return a.token < b.token; });
    auto twice =
        std::adjacent_find(spec->sampling.logit_bias.begin(), spec->sampling.logit_bias.end(),
                           [](const auto& a, const auto& b) { return a.token == b.token; });
    if (twice != spec->sampling.logit_bias.end())  // "5" and "05"
        fields.fail("logit_bias", fmt::format("'logit_bias' names token {} twice", twice->token));
}

void parse_stop_token_ids(FieldReader& fields, GenerateSpec* spec) {
    const json::array* ids = fields.array("stop_token_ids");
    if (ids == nullptr) return;
    if (ids->size() > kStopTokensMax) {
        fields.fail("stop_token_ids",
                    fmt::format("'stop_token_ids' may hold at most {} ids", kStopTokensMax));
        return;
    }
    for (const json::value& id : *ids) {
        std::optional<std::int64_t> number = exact_integer(id);
        if (!number || *number < 0 || *number > kInt32Max) {
            fields.fail("stop_token_ids", "'stop_token_ids' must hold token ids");
            return;
        }
        spec->sampling.stop_tokens.push_back(static_cast<TokenId>(*number));
    }
}

void parse_stream(FieldReader& fields, GenerateSpec* spec) {
    spec->stream = fields.boolean("stream").value_or(false);
    const json::object* options = fields.object("stream_options");
    if (options == nullptr) return;
    if (!spec->stream) {
        fields.fail("stream_options", "'stream_options' is only allowed with 'stream': true");
        return;
    }
    FieldReader inner(*options, "stream_options");
    spec->include_usage = inner.boolean("include_usage").value_or(false);
    spec->continuous_usage = inner.boolean("continuous_usage_stats").value_or(false);
    if (!inner.ok()) fields.fail("stream_options", inner.error().message);
}

void parse_sampling(FieldReader& fields, GenerateSpec* spec) {
    using LowEnd = FieldReader::LowEnd;
    link::SamplingParams& s = spec->sampling;
    if (auto v = fields.number("temperature", 0, 2)) s.temperature = to_float(*v);
    if (auto v = fields.number("top_p", 0, 1, LowEnd::kOpen)) s.top_p = to_float(*v);
    if (auto v = fields.number("min_p", 0, 1)) s.min_p = to_float(*v);
    if (auto v = fields.integer("top_k", -1, kInt32Max))
        s.top_k = *v < 0 ? 0 : static_cast<std::uint32_t>(*v);
    if (auto v = fields.number("presence_penalty", -2, 2)) s.presence_penalty = to_float(*v);
    if (auto v = fields.number("frequency_penalty", -2, 2)) s.frequency_penalty = to_float(*v);
    if (auto v = fields.number("repetition_penalty", 0, 100, LowEnd::kOpen))
        s.repetition_penalty = to_float(*v);
    if (s.top_p == 0)
        s.top_p = std::numeric_limits<float>::min();  // a double above 0 that rounded down
    if (s.repetition_penalty == 0) s.repetition_penalty = std::numeric_limits<float>::min();
    if (auto v = fields.integer("seed", std::numeric_limits<std::int64_t>::min(),
                                std::numeric_limits<std::int64_t>::max())) {
        s.seed = static_cast<std::uint64_t>(*v);
        spec->seed_given = true;
    }
    s.ignore_eos = fields.boolean("ignore_eos").value_or(false);
    if (auto v = fields.integer("min_tokens", 0, kInt32Max))
        s.min_tokens = static_cast<std::uint32_t>(*v);
}

}  // namespace

void parse_common_fields(FieldReader& fields, const config::Limits& limits, GenerateSpec* spec) {
    spec->model = fields.string("model", kNameBytesMax);
    parse_sampling(fields, spec);
    if (auto v = fields.integer("n", 1, limits.n)) spec->choices = static_cast<std::uint16_t>(*v);
    if (auto v = fields.integer("max_tokens", 0, kTokensMax))
        spec->max_tokens = static_cast<std::uint32_t>(std::min<std::int64_t>(*v, kInt32Max));
    parse_stop(fields, limits, spec);
    spec->include_stop = fields.boolean("include_stop_str_in_output").value_or(false);
    spec->skip_special_tokens = fields.boolean("skip_special_tokens").value_or(true);
    parse_stop_token_ids(fields, spec);
    parse_logit_bias(fields, limits, spec);
    parse_stream(fields, spec);
    spec->return_token_ids = fields.boolean("return_token_ids").value_or(false);
    if (auto v = fields.integer("priority", std::numeric_limits<std::int32_t>::min(), kInt32Max))
        spec->priority = static_cast<std::int32_t>(*v);
    spec->cache_salt = fields.string("cache_salt", kSaltBytesMax).value_or("");
    spec->session = fields.string("prompt_cache_key", kNameBytesMax).value_or("");
    std::optional<std::string> user = fields.string("user", kNameBytesMax);
    if (spec->session.empty() && user) spec->session = *user;
}

namespace {

bool is_text_format(const json::value& value) {
    if (!value.is_object()) return false;
    const json::value* type = value.get_object().if_contains("type");
    return type != nullptr && type->is_string() && type->get_string() == "text";
}
bool is_empty(const json::value& value) {
    return (value.is_array() && value.get_array().empty()) ||
           (value.is_object() && value.get_object().empty()) ||
           (value.is_string() && value.get_string().empty());
}
bool is_false_or_zero(const json::value& value) {
    return (value.is_bool() && !value.get_bool()) ||
           (value.is_number() && value.to_number<double>() == 0);
}
bool is_one(const json::value& value) {
    return value.is_number() && value.to_number<double>() == 1;
}

// Fields of other servers that change the text; `neutral` is the value that does not.
struct Refused {
    std::string_view name;
    bool (*neutral)(const json::value&);
    std::string_view instead;
};
constexpr bool (*kNever)(const json::value&) = [](const json::value&) { return false; };
constexpr std::array kRefused = {
    Refused{"functions", is_empty, "tool calls are not supported yet"},
    Refused{"tool_choice",
            [](const json::value& v) {
                return v.is_string() && (v.get_string() == "none" || v.get_string() == "auto");
            },
            "tool calls are not supported yet"},
    Refused{"function_call",
            [](const json::value& v) {
                return v.is_string() && (v.get_string() == "none" || v.get_string() == "auto");
            },
            "tool calls are not supported yet"},
    Refused{"response_format", is_text_format, "only {\"type\": \"text\"} is supported"},
    Refused{"structured_outputs", is_empty, "constrained output is not supported yet"},
    Refused{"guided_json", kNever, "constrained output is not supported yet"},
    Refused{"guided_regex", kNever, "constrained output is not supported yet"},
    Refused{"guided_choice", kNever, "constrained output is not supported yet"},
    Refused{"guided_grammar", kNever, "constrained output is not supported yet"},
    Refused{"json_schema", kNever, "constrained output is not supported yet"},
    Refused{"grammar", is_empty, "constrained output is not supported yet"},
    Refused{"regex", kNever, "constrained output is not supported yet"},
    Refused{"ebnf", kNever, "constrained output is not supported yet"},
    Refused{"modalities",
            [](const json::value& v) {
                return v.is_array() && v.get_array().size() == 1 && v.get_array()[0] == "text";
            },
            "only text is supported"},
    Refused{"audio", kNever, "only text is supported"},
    Refused{"prediction", kNever, "predicted outputs are not supported"},
    Refused{"use_beam_search", is_false_or_zero, "beam search is not supported"},
    Refused{"best_of", is_one, "use 'n'"},
    Refused{"length_penalty", is_one, "beam search is not supported"},
    Refused{"suffix", is_empty, "the model has no fill-in-the-middle form"},
    Refused{"bad_words", is_empty, "use 'logit_bias'"},
    Refused{"allowed_token_ids", kNever, "use 'logit_bias'"},
    Refused{"logits_processors", is_empty, "not supported"},
    Refused{"custom_logit_processor", is_empty, "not supported"},
    Refused{"chat_template", kNever, "templates come from the model"},
    Refused{"documents", is_empty, "put documents into messages"},
    Refused{"truncate_prompt_tokens", kNever, "prompts are never cut"},
    Refused{"thinking_token_budget", kNever, "not supported"},
    Refused{"repetition_detection", kNever, "not supported"},
    Refused{"stop_regex", kNever, "use 'stop'"},
    Refused{"mirostat", is_false_or_zero, "not supported"},
    Refused{"typical_p", is_one, "not supported"},
    Refused{"dry_multiplier", is_false_or_zero, "not supported"},
    Refused{"xtc_probability", is_false_or_zero, "not supported"},
    Refused{"dynatemp_range", is_false_or_zero, "not supported"},
    Refused{"lora_path", is_empty, "adapters are not supported"},
    Refused{"n_keep", is_false_or_zero, "prompts are never cut"},
    Refused{"n_discard", is_false_or_zero, "prompts are never cut"},
    Refused{"prompt_logprobs", kNever, "use 'echo' with 'logprobs' on /v1/completions"},
    Refused{"min_new_tokens", is_false_or_zero, "use 'min_tokens'"},
};

void log_ignored_once(std::string_view name) {
    static std::mutex mutex;  // several gateways may live in one process
    static std::unordered_set<std::string> seen;
    std::lock_guard lock(mutex);
    if (seen.size() >= kLoggedNamesMax) return;
    std::string shown = bounded_echo(name, 60);
    if (seen.insert(shown).second) log_info("request field '{}' is not used and is ignored", shown);
}

}  // namespace

void settle_other_fields(FieldReader& fields) {
    if (const json::value* tools = fields.find("tools")) {
        if (!tools->is_array())
            fields.fail("tools",
                        fmt::format("'tools' must be an array, not {}", json_kind(*tools)));
        else
            fields.fail("tools", "'tools': tool calls are not supported yet",
                        ErrorCode::kUnsupported);
    }
    for (const Refused& refused : kRefused) {
        const json::value* value = fields.find(refused.name);
        if (value != nullptr && !refused.neutral(*value))
            fields.fail(refused.name,
                        fmt::format("'{}' would change the answer and is not supported: {}",
                                    refused.name, refused.instead),
                        ErrorCode::kUnsupported);
    }
    if (!fields.ok()) return;
    for (std::string_view name : fields.unknown()) log_ignored_once(name);
}

jinja::Value to_template_value(const json::value& value) {
    switch (value.kind()) {
        case json::kind::null:
            return jinja::Value::none();
        case json::kind::bool_:
            return jinja::Value::boolean(value.get_bool());
        case json::kind::int64:
            return jinja::Value::integer(value.get_int64());
        case json::kind::uint64:
            return jinja::Value::big_integer(std::to_string(value.get_uint64()));
        case json::kind::double_:
            return jinja::Value::number(value.get_double());
        case json::kind::string:
            return jinja::Value::user_string(
                std::string(value.get_string().data(), value.get_string().size()));
        case json::kind::array: {
            std::vector<jinja::Value> items;
            items.reserve(value.get_array().size());
            for (const json::value& item : value.get_array())
                items.push_back(to_template_value(item));
            return jinja::Value::list(std::move(items));
        }
        case json::kind::object: {
            jinja::Value out = jinja::Value::dict();
            for (const auto& member : value.get_object())
                out.set_user(std::string(member.key().data(), member.key().size()),
                             to_template_value(member.value()));
            return out;
        }
    }
    return {};
}

}  // namespace taproot::gateway
