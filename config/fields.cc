// SPDX-License-Identifier: Apache-2.0
#include "config/fields.h"

#include <fmt/format.h>

#include "base/assert.h"
#include "config/quantity.h"

namespace taproot::config {
namespace {

constexpr std::uint64_t kMinute = 60'000;
constexpr std::uint64_t kHour = 60 * kMinute;

template <typename T>
struct MemberOf;
template <typename Owner, typename T>
struct MemberOf<T Owner::*> {
    using OwnerType = Owner;
    using Type = T;
};

template <auto kMember>
void* address(void* object) {
    using Owner = typename MemberOf<decltype(kMember)>::OwnerType;
    return &(static_cast<Owner*>(object)->*kMember);
}

template <auto kMember, typename Expected>
constexpr void require_type() {
    static_assert(std::is_same_v<typename MemberOf<decltype(kMember)>::Type, Expected>);
}

template <auto kMember>
Field text(std::string_view key, std::string_view help, std::string_view example = {}) {
    require_type<kMember, std::string>();
    return {.key = key,
            .help = help,
            .kind = Kind::kText,
            .example = example,
            .member = address<kMember>};
}

template <auto kMember>
Field choice(std::string_view key, std::vector<std::string_view> choices, std::string_view help) {
    require_type<kMember, std::string>();
    return {.key = key,
            .help = help,
            .kind = Kind::kChoice,
            .choices = std::move(choices),
            .member = address<kMember>};
}

template <auto kMember>
Field secrets(std::string_view key, std::string_view help) {
    require_type<kMember, std::vector<std::string>>();
    return {.key = key,
            .help = help,
            .kind = Kind::kTextList,
            .secret = true,
            .member = address<kMember>};
}

template <auto kMember>
Field number(Kind kind, std::string_view key, std::uint64_t min, std::uint64_t max,
             std::string_view help) {
    using T = typename MemberOf<decltype(kMember)>::Type;
    static_assert(std::is_same_v<T, std::uint32_t> || std::is_same_v<T, std::uint64_t>);
    constexpr bool kWide = sizeof(T) == 8;
    TAPROOT_ASSERT(kWide || max <= UINT32_MAX);
    return {.key = key,
            .help = help,
            .kind = kind,
            .min = min,
            .max = max,
            .member = address<kMember>,
            .is_wide = kWide};
}
template <auto kMember>
Field count(std::string_view key, std::uint64_t min, std::uint64_t max, std::string_view help) {
    return number<kMember>(Kind::kCount, key, min, max, help);
}
template <auto kMember>
Field size(std::string_view key, std::uint64_t min, std::uint64_t max, std::string_view help) {
    return number<kMember>(Kind::kSize, key, min, max, help);
}
template <auto kMember>
Field time(std::string_view key, std::uint64_t min, std::uint64_t max, std::string_view help) {
    return number<kMember>(Kind::kTime, key, min, max, help);
}

template <auto kMember>
Field group(std::string_view key, const Table& (*table)(), std::string_view help) {
    return {
        .key = key, .help = help, .kind = Kind::kGroup, .member = address<kMember>, .group = table};
}

template <auto kMember>
Field group_list(std::string_view key, const Table& (*table)(), std::string_view help) {
    using List = typename MemberOf<decltype(kMember)>::Type;
    return {
        .key = key,
        .help = help,
        .kind = Kind::kGroupList,
        .member = address<kMember>,
        .group = table,
        .list_size = [](const void* list) { return static_cast<const List*>(list)->size(); },
        .list_item = [](void* list, std::size_t i) -> void* {
            return &(*static_cast<List*>(list))[i];
        },
        .list_add = [](void* list) -> void* { return &static_cast<List*>(list)->emplace_back(); }};
}

}  // namespace

const Table& model_table() {
    static const Table table{
        "model",
        {text<&Model::path>("path", "model file (GGUF); required where a worker runs on this host",
                            "models/SmolLM2-135M-Instruct.Q4_1.gguf"),
         text<&Model::name>("name",
                            "name that clients ask for; null = file name without extension"),
         count<&Model::max_model_len>(
             "max_model_len", 0, 1'048'576,
             "prompt + generated tokens; 0 = what the model was made for")}};
    return table;
}

const Table& limits_table() {
    static const Table table{
        "limits",
        {size<&Limits::body_bytes>("body_bytes", 1_KiB, 1_GiB, "request body; more is 413"),
         size<&Limits::header_bytes>("header_bytes", 1_KiB, 1_MiB,
                                     "request line and headers; more is 431"),
         time<&Limits::header_read_ms>("header_read_ms", 10, kHour,
                                       "the whole header must have arrived; else 408"),
         time<&Limits::body_read_ms>("body_read_ms", 10, kHour,
                                     "the whole body must have arrived; else 408"),
         time<&Limits::idle_ms>("idle_ms", 10, 24 * kHour,
                                "a kept-alive connection without request"),
         count<&Limits::connections>("connections", 1, 1'000'000, "open at once"),
         count<&Limits::queue_requests>("queue_requests", 1, 1'000'000,
                                        "waiting per model in the whole fleet; more is 429"),
         count<&Limits::queue_uncached_tokens>(
             "queue_uncached_tokens", 1, 1'000'000'000'000,
             "prompt tokens waiting to be computed per model; more is 429"),
         count<&Limits::n>("n", 1, 1'024, "choices per request; more is 400"),
         count<&Limits::stop_strings>("stop_strings", 0, 1'024, "stop strings per request"),
         count<&Limits::stop_bytes>("stop_bytes", 1, 65'536, "bytes per stop string"),
         count<&Limits::top_logprobs>("top_logprobs", 0, 1'024, "alternatives per token"),
         count<&Limits::logit_bias>("logit_bias", 0, 1'048'576, "entries of logit_bias"),
         count<&Limits::json_depth>("json_depth", 4, 1'024, "nesting of a JSON body"),
         count<&Limits::prompts>("prompts", 1, 65'536, "prompts in one /v1/completions"),
         time<&Limits::slow_reader_ms>("slow_reader_ms", 10, kHour,
                                       "a client that takes nothing for so long is dropped"),
         size<&Limits::slow_reader_bytes>("slow_reader_bytes", 1_KiB, 1_GiB,
                                          "a client that lets so much pile up is dropped")}};
    return table;
}

const Table& gateway_table() {
    static const Table table{
        "gateway",
        {text<&Gateway::listen>("listen", "host:port of the API; port 0 = any free one"),
         choice<&Gateway::auth>("auth", {"keys", "none"},
                                "none = no keys even on a public address"),
         secrets<&Gateway::api_keys>(
             "api_keys", "for 'Authorization: Bearer KEY'; null = no keys, on loopback only"),
         text<&Gateway::api_keys_file>("api_keys_file", "more keys, one per line; '#' comments"),
         group<&Gateway::limits>("limits", limits_table, "what a client may send and cause"),
         choice<&Gateway::route_policy>(
             "route_policy",
             {"cost", "round_robin", "least_loaded", "prefix_first", "session_hash"},
             "how a worker is chosen"),
         size<&Gateway::index_bytes>("index_bytes", 1_MiB, 1024_GiB,
                                     "memory for what the gateway knows of the workers' caches"),
         time<&Gateway::reservation_ms>("reservation_ms", 1, kHour,
                                        "routed blocks count as cached so long, unconfirmed"),
         count<&Gateway::retries>("retries", 0, 16, "of a request that has sent no token"),
         size<&Gateway::token_cache_bytes>("token_cache_bytes", 0, 1024_GiB,
                                           "memory for texts already tokenised"),
         time<&Gateway::drain_ms>("drain_ms", 0, kHour, "running streams get so long at shutdown"),
         count<&Gateway::tokenize_threads>("tokenize_threads", 1, 256,
                                           "for long prompts, beside the I/O thread"),
         count<&Gateway::route_history>("route_history", 0, 1'000'000,
                                        "choices kept for /debug/route"),
         time<&Gateway::reconnect_ms_max>("reconnect_ms_max", 10, kHour,
                                          "longest pause between tries to reach a worker")}};
    return table;
}

const Table& worker_table() {
    static const Table table{
        "workers[]",
        {text<&Worker::name>("name", "unique; letters, digits, '.', '_', '-'", "worker-0"),
         text<&Worker::link>("link", "unix:/path or host:port; null = a unix socket in run_dir"),
         choice<&Worker::device>("device", {"cpu"}, "what computes"),
         count<&Worker::threads>("threads", 0, 1'024, "0 = this host's cores shared out evenly"),
         size<&Worker::kv_bytes>("kv_bytes", 1_MiB, 64 * 1024_GiB, "memory for cached KV"),
         size<&Worker::kv_ram_bytes>("kv_ram_bytes", 0, 64 * 1024_GiB,
                                     "host memory for KV that kv_bytes no longer holds; 0 = none"),
         choice<&Worker::kv_dtype>("kv_dtype", {"f16", "bf16", "f32", "int8"},
                                   "how cached KV is stored; int8 halves it"),
         text<&Worker::weights_cache>(
             "weights_cache", "repacked weights on disk: off, auto (beside the model) or a path"),
         count<&Worker::max_num_seqs>("max_num_seqs", 1, 65'536, "sequences in one step"),
         count<&Worker::queue_requests>("queue_requests", 1, 1'000'000, "waiting; more is 429"),
         count<&Worker::queue_tokens>("queue_tokens", 1, 1'000'000'000'000,
                                      "uncached prompt tokens waiting; more is 429"),
         time<&Worker::step_ms_target>("step_ms_target", 1, kMinute, "how long a step should take"),
         count<&Worker::prefill_chunk_tokens>("prefill_chunk_tokens", 1, 1'048'576,
                                              "most prompt tokens in one step"),
         time<&Worker::aging_ms>("aging_ms", 1, kHour,
                                 "so much waiting beats less uncached work of others"),
         time<&Worker::load_interval_ms>("load_interval_ms", 1, kMinute,
                                         "between load reports to the gateway"),
         time<&Worker::stats_interval_ms>("stats_interval_ms", 100, kHour,
                                          "between log lines while there is work")}};
    return table;
}

const Table& log_table() {
    static const Table table{
        "log",
        {choice<&Log::level>("level", {"debug", "info", "warn", "error", "off"},
                             "least severe shown")}};
    return table;
}

const Table& config_table() {
    static const Table table{
        "",
        {group<&Config::model>("model", model_table, "what is served"),
         group<&Config::gateway>("gateway", gateway_table, "the HTTP side"),
         group_list<&Config::workers>("workers", worker_table, "the engines; at least one"),
         group<&Config::log>("log", log_table, "to stderr"),
         text<&Config::run_dir>("run_dir",
                                "sockets and pid files; null = a new temporary folder")}};
    return table;
}

std::uint64_t Field::number(const void* object) const {
    const void* at = member_of(object);
    return is_wide ? *static_cast<const std::uint64_t*>(at)
                   : *static_cast<const std::uint32_t*>(at);
}

void Field::set_number(void* object, std::uint64_t value) const {
    void* at = member(object);
    if (is_wide)
        *static_cast<std::uint64_t*>(at) = value;
    else
        *static_cast<std::uint32_t*>(at) = static_cast<std::uint32_t>(value);
}

std::string Field::allowed() const {
    switch (kind) {
        case Kind::kText:
            return "text";
        case Kind::kChoice:
            return fmt::format("one of {}", fmt::join(choices, ", "));
        case Kind::kFlag:
            return "true or false";
        case Kind::kCount:
            return fmt::format("a number in {}..{}", min, max);
        case Kind::kSize:
            return fmt::format("a size in {}..{}", format_size(min), format_size(max));
        case Kind::kTime:
            return fmt::format("a time in {}..{}", format_time_ms(min), format_time_ms(max));
        case Kind::kTextList:
            return "a list of texts";
        case Kind::kGroup:
            return "a mapping";
        case Kind::kGroupList:
            return "a list of mappings";
    }
    return "";
}

const Field* Table::find(std::string_view key) const {
    for (const Field& field : fields)
        if (field.key == key) return &field;
    return nullptr;
}

}  // namespace taproot::config
