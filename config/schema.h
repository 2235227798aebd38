// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <chrono>
#include <cstdint>
#include <string>
#include <vector>

#include "base/units.h"

// The configuration as plain structs: every field has its default here and its meaning in one line;
// config/reference.yaml shows the same and a test compares the two. Sizes are bytes, times
// milliseconds.
namespace taproot::config {

struct Model {
    std::string path;                 // model file (GGUF); required for a worker
    std::string name;                 // served name; empty = file name without extension
    std::uint32_t max_model_len = 0;  // prompt + generated tokens; 0 = the model's own, 1..1048576

    friend bool operator==(const Model&, const Model&) = default;
};

struct Limits {  // what a client may send; each is an answer (400, 408, 413, 429, 431), never
                 // growth
    std::uint64_t body_bytes = 16_MiB;      // 1KiB..1GiB
    std::uint64_t header_bytes = 32_KiB;    // 1KiB..1MiB
    std::uint64_t header_read_ms = 10'000;  // whole header must have arrived
    std::uint64_t body_read_ms = 60'000;
    std::uint64_t idle_ms = 75'000;  // keep-alive
    std::uint32_t connections = 4'096;
    std::uint32_t queue_requests = 1'024;  // waiting per model, in the whole fleet
    std::uint64_t queue_uncached_tokens = 4'000'000;
    std::uint32_t n = 16;
    std::uint32_t stop_strings = 16;
    std::uint32_t stop_bytes = 256;
    std::uint32_t top_logprobs = 20;
    std::uint32_t logit_bias = 1'024;
    std::uint32_t json_depth = 64;
    std::uint32_t prompts = 128;              // prompts in one /v1/completions
    std::uint64_t slow_reader_ms = 30'000;    // no progress writing to a client
    std::uint64_t slow_reader_bytes = 1_MiB;  // backlog of one stream

    friend bool operator==(const Limits&, const Limits&) = default;
};

struct Gateway {
    std::string listen = "127.0.0.1:8080";  // host:port; port 0 = any free
    std::string auth = "keys";          // "keys" or "none" (needed for a public bind without keys)
    std::vector<std::string> api_keys;  // Authorization: Bearer ...; empty = no keys on loopback
    std::string api_keys_file;          // one key per line
    Limits limits;
    std::string route_policy =
        "cost";  // cost | round_robin | least_loaded | prefix_first | session_hash
    std::uint64_t index_bytes = 64_MiB;     // prefix index budget
    std::uint64_t reservation_ms = 10'000;  // routed but not yet confirmed blocks count this long
    std::uint32_t retries = 2;              // of requests that have sent no token
    std::uint64_t token_cache_bytes = 64_MiB;  // texts already tokenised
    std::uint64_t drain_ms = 3'000;            // running streams get this long at shutdown
    std::uint32_t tokenize_threads = 1;        // for long prompts, beside the I/O thread
    std::uint32_t route_history = 1'024;       // explained choices kept for /debug/route
    std::uint64_t reconnect_ms_max = 2'000;    // backoff towards a worker that is away

    friend bool operator==(const Gateway&, const Gateway&) = default;
};

struct Worker {
    std::string name;  // required, unique
    std::string link;  // "unix:/path" or "host:port"; empty = unix socket in run_dir
    std::string device = "cpu";
    std::uint32_t threads = 0;       // 0 = cores of this host shared out evenly
    std::uint64_t kv_bytes = 1_GiB;  // KV pool
    std::uint64_t kv_ram_bytes = 0;  // host memory for what the pool evicts; 0 = none
    std::string kv_dtype = "f16";    // how cached keys and values are stored: f16|bf16|f32|int8
    // Repacked weights on disk: "off", "auto" (beside the model file) or a path.
    std::string weights_cache = "off";
    std::uint32_t max_num_seqs = 64;
    std::uint32_t queue_requests = 1'024;
    std::uint64_t queue_tokens = 4'000'000;    // uncached
    std::uint64_t step_ms_target = 50;         // a step's time budget
    std::uint32_t prefill_chunk_tokens = 512;  // most prompt tokens in one step
    std::uint64_t aging_ms = 2'000;            // waiting this long beats less uncached work
    std::uint64_t load_interval_ms = 50;
    std::uint64_t stats_interval_ms = 10'000;  // the log line while there is work

    friend bool operator==(const Worker&, const Worker&) = default;
};

struct Log {
    std::string level = "info";  // debug | info | warn | error | off

    friend bool operator==(const Log&, const Log&) = default;
};

struct Config {
    Model model;
    Gateway gateway;
    std::vector<Worker> workers;
    Log log;
    std::string run_dir;  // sockets and pid files; empty = a new temporary folder

    friend bool operator==(const Config&, const Config&) = default;
};

}  // namespace taproot::config
