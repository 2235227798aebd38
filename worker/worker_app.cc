// SPDX-License-Identifier: Apache-2.0
#include "worker/worker_app.h"

#include <fmt/format.h>
#include <sys/stat.h>

#include <algorithm>
#include <boost/asio/executor_work_guard.hpp>
#include <boost/asio/io_context.hpp>
#include <boost/asio/post.hpp>
#include <filesystem>
#include <future>
#include <random>
#include <thread>
#include <utility>

#include "base/log.h"
#include "base/units.h"
#include "base/version.h"
#include "kernels/dispatch.h"
#include "kernels/fork_join.h"
#include "link/codec.h"
#include "worker/engine/engine.h"
#include "worker/engine/executor_cpu.h"
#include "worker/memory_plan.h"
#include "worker/model/loaded_model.h"
#include "worker/model/weights.h"
#include "worker/probe.h"
#include "worker/server.h"

namespace taproot {
namespace {

constexpr std::uint32_t kScoreChunkTokens = 64;  // a row of logits each

// New at each start, also within one clock tick.
std::uint64_t new_epoch() {
    std::random_device device;
    std::uint64_t epoch = (std::uint64_t{device()} << 32) | device();
    return epoch == 0 ? 1 : epoch;
}

int thread_count(const config::Config& config, const config::Worker& worker) {
    if (worker.threads > 0) return static_cast<int>(worker.threads);
    auto workers = static_cast<int>(std::max<std::size_t>(config.workers.size(), 1));
    return std::max(1, default_thread_count() / workers);
}

// A configuration from a file holds a known name; one made in a program may not.
Result<KvDType> kv_dtype(const config::Worker& worker) {
    if (auto dtype = parse_kv_dtype(worker.kv_dtype)) return *dtype;
    return invalid_argument(fmt::format("'{}' is not one of f16, bf16, f32, int8", worker.kv_dtype),
                            "kv_dtype");
}

// Where repacked weights are looked for and left; opened. Waits for a worker that makes them.
Result<WeightStore> open_weights(const LoadedModel& model, const config::Config& config,
                                 const config::Worker& worker, int shared_weights) {
    WeightStoreOptions options;
    if (!worker.weights_cache.empty() && worker.weights_cache != "off") {
        options.cache = worker.weights_cache == "auto" ? config.model.path + ".taproot-weights"
                                                       : worker.weights_cache;
        // As readable as the model that they are made of.
        struct stat info = {};
        if (::stat(config.model.path.c_str(), &info) == 0)
            options.cache_mode = (info.st_mode & 0444u) | 0600u;
    } else {
        options.shared_fd = shared_weights;
    }
    TAPROOT_TRY(WeightIdentity identity, plan_weights(model, WeightMode::kNative));
    WeightStore store(std::move(options));
    TAPROOT_CHECK_OK(store.open(identity));
    return store;
}

// All that a worker takes beside weights and KV pool, at most: activations of one step and the rows
// of logits it may ask for; results of attention tiles (the bound in kernels/attention_plan.cc);
// rotary tables; the program, its tokenizer data, the tree of the prefix cache, requests.
std::uint64_t scratch_estimate(const ModelConfig& model, std::uint32_t rows,
                               std::uint32_t logit_rows) {
    constexpr std::uint64_t kAttentionResults = 32_MiB;
    constexpr std::uint64_t kProgram = 24_MiB;
    auto width = [](int n) { return static_cast<std::uint64_t>(n); };
    std::uint64_t heads = width(model.heads + 2 * model.kv_heads) * width(model.head_dim);
    std::uint64_t row = 4 * width(model.embedding) + heads + 3 * width(model.feed_forward);
    std::uint64_t rotary = width(model.context) * width(model.rotary_dim);
    return sizeof(float) * (rows * row + logit_rows * width(model.vocabulary) + rotary) +
           kAttentionResults + kProgram;
}

Result<MemoryPlan> plan_for(const LoadedModel& model, const config::Config& config,
                            const config::Worker& worker, const WeightStore& weights,
                            KvDType kv_dtype) {
    MemoryAsk ask;
    ask.weight_bytes = weights.identity().payload_bytes;
    ask.weights_are_there = weights.costs_no_memory();
    ask.kv_bytes = worker.kv_bytes;
    ask.kv_ram_bytes = worker.kv_ram_bytes;
    ask.kv_bytes_per_block =
        static_cast<std::uint64_t>(kv_geometry(model.config, kv_dtype).block_bytes());
    ask.kv_dtype = std::string(to_string(kv_dtype));
    ask.scratch_bytes =
        scratch_estimate(model.config, worker.prefill_chunk_tokens + worker.max_num_seqs,
                         kScoreChunkTokens + worker.max_num_seqs);
    ask.model_context = static_cast<std::uint32_t>(model.config.context);
    ask.model_len_asked = config.model.max_model_len;
    return plan_memory(ask, available_memory());
}

EngineOptions engine_options(const LoadedModel& model, const config::Worker& worker,
                             const MemoryPlan& plan, std::uint64_t epoch, const StepCost& cost) {
    EngineOptions options;
    options.name = worker.name;
    options.blocks = plan.kv_blocks;
    options.end_tokens = end_tokens(model.text);
    options.epoch = epoch;
    options.load_interval_ms = worker.load_interval_ms;
    options.stats_interval_ms = worker.stats_interval_ms;
    SchedulerOptions& scheduler = options.scheduler;
    scheduler.seqs_max = worker.max_num_seqs;
    scheduler.queue_requests_max = worker.queue_requests;
    scheduler.queue_tokens_max = worker.queue_tokens;
    scheduler.step_ms_target = static_cast<double>(worker.step_ms_target);
    scheduler.prefill_chunk_tokens = worker.prefill_chunk_tokens;
    scheduler.score_chunk_tokens = kScoreChunkTokens;
    scheduler.aging_ms = static_cast<double>(worker.aging_ms);
    scheduler.model_len_max = plan.model_len_max;
    scheduler.tokens = model.config.vocabulary;
    scheduler.cost_prior = cost;
    return options;
}

// What the worker says of itself; what only the executor knows is left to the caller.
ServerOptions server_options(const LoadedModel& model, const config::Config& config,
                             const config::Worker& worker, const MemoryPlan& plan) {
    ServerOptions server;
    server.text_bundle = link::encode_text_model(model.text);
    link::Hello& hello = server.hello;
    hello.build = std::string(kVersion);
    hello.worker = worker.name;
    hello.epoch = new_epoch();
    hello.model = !config.model.name.empty()
                      ? config.model.name
                      : std::filesystem::path(config.model.path).stem().string();
    hello.model_digest = model.digest;
    hello.text_digest = link::text_digest(server.text_bundle);
    hello.blocks_total = plan.kv_blocks;
    hello.vocab = static_cast<std::uint32_t>(model.config.vocabulary);
    hello.max_model_len = plan.model_len_max;
    hello.max_num_seqs = worker.max_num_seqs;
    hello.queue_requests_max = worker.queue_requests;
    hello.queue_tokens_max = worker.queue_tokens;
    return server;
}

}  // namespace

// Members in order of construction; destroyed in reverse.
struct WorkerApp::Parts {
    Parts(ServerOptions server_options, EngineOptions options, link::LinkAddress where,
          std::unique_ptr<CpuExecutor> model)
        : address(std::move(where)),
          executor(std::move(model)),
          work(asio::make_work_guard(io)),
          server(io, std::move(server_options)),
          engine(std::move(options), *executor, clock, server) {}

    link::LinkAddress address;
    RealClock clock;
    std::unique_ptr<CpuExecutor> executor;
    asio::io_context io{1};
    asio::executor_work_guard<asio::io_context::executor_type> work;
    WorkerServer server;
    Engine engine;
    std::thread io_thread;
};

Result<std::unique_ptr<WorkerApp>> WorkerApp::create(const config::Config& config,
                                                     std::string_view name, int shared_weights) {
    auto found = std::find_if(config.workers.begin(), config.workers.end(),
                              [name](const config::Worker& worker) { return worker.name == name; });
    if (found == config.workers.end())
        return Error{ErrorCode::kNotFound, fmt::format("no worker is named '{}'", name), "workers"};
    const config::Worker& worker = *found;
    TAPROOT_TRY(link::LinkAddress address,
                link::LinkAddress::of_worker(worker.link, config.run_dir, worker.name));
    TAPROOT_TRY(Isa isa, choose_isa());
    TAPROOT_TRY(KvDType dtype, kv_dtype(worker));
    RealClock clock;
    TimePoint last = clock.now();
    auto lap = [&] {
        TimePoint now = clock.now();
        return to_ms(now - std::exchange(last, now));
    };
    TAPROOT_TRY(LoadedModel model, load_model(config.model.path));
    double read_ms = lap();
    TAPROOT_TRY(WeightStore weights, open_weights(model, config, worker, shared_weights));
    TAPROOT_TRY(MemoryPlan plan, plan_for(model, config, worker, weights, dtype));
    if (config.model.max_model_len == 0 &&
        plan.model_len_max < static_cast<std::uint32_t>(model.config.context))
        log_warn("{}: the KV pool limits requests to {} tokens; the model could do {}", worker.name,
                 plan.model_len_max, model.config.context);

    CpuExecutorOptions cpu;
    cpu.threads = thread_count(config, worker);
    cpu.isa = isa;
    cpu.kv_blocks = plan.kv_blocks;
    cpu.kv_dtype = dtype;
    cpu.max_rows = static_cast<int>(worker.prefill_chunk_tokens + worker.max_num_seqs);
    cpu.max_positions = static_cast<int>(plan.model_len_max);
    bool were_ready = weights.ready();
    TAPROOT_TRY(std::unique_ptr<CpuExecutor> executor,
                CpuExecutor::create(model, cpu, std::move(weights)));
    double weights_ms = lap();
    log_info("{}: memory: {}; {:.0f} MiB available", worker.name, plan.describe(),
             static_cast<double>(plan.available_bytes) / static_cast<double>(1_MiB));

    log_info("{}: weights in {}", worker.name, executor->weight_memory());

    StepCost cost = probe_step_cost(*executor, clock, static_cast<int>(plan.kv_blocks),
                                    static_cast<int>(plan.model_len_max));
    double probe_ms = lap();
    ServerOptions server = server_options(model, config, worker, plan);
    server.hello.kv_layout_digest = executor->kv_layout_digest();
    server.hello.isa = std::string(to_string(isa));
    server.hello.prefill_ms_per_token = cost.prefill_token_ms;
    EngineOptions engine = engine_options(model, worker, plan, server.hello.epoch, cost);
    if (worker.kv_ram_bytes > 0) {
        TAPROOT_TRY(engine.ram, RamTier::create({.bytes_max = worker.kv_ram_bytes,
                                                 .block_bytes = executor->block_bytes()}));
    }
    log_info(
        "{}: model {}, {} threads, {}, first estimate {:.0f} prompt tokens/s, {:.0f} tokens/s "
        "per stream",
        worker.name, server.hello.model, cpu.threads, server.hello.isa, 1e3 / cost.prefill_token_ms,
        1e3 / (cost.fixed_ms + cost.decode_stream_ms));
    log_info("{}: file read in {:.0f} ms, weights {} in {:.0f} ms, speed measured in {:.0f} ms",
             worker.name, read_ms, were_ready ? "found ready" : "repacked", weights_ms, probe_ms);
    auto parts = std::make_unique<Parts>(std::move(server), std::move(engine), std::move(address),
                                         std::move(executor));
    return std::unique_ptr<WorkerApp>(new WorkerApp(std::move(parts)));
}

WorkerApp::WorkerApp(std::unique_ptr<Parts> parts) : parts_(std::move(parts)) {}

WorkerApp::~WorkerApp() {
    stop();
}

Result<void> WorkerApp::start() {
    TAPROOT_CHECK_OK(parts_->server.start(parts_->address, parts_->engine));
    parts_->engine.start();
    parts_->io_thread = std::thread([this] {
        try {
            parts_->io.run();
        } catch (const std::exception& error) {  // a door where exceptions stop
            log_error("the worker's link thread ended by an exception: {}; this is a bug",
                      error.what());
            std::abort();
        }
    });
    log_info("serving on {}", address().to_string());
    return {};
}

link::LinkAddress WorkerApp::address() const {
    return parts_->server.address();
}

void WorkerApp::stop() {
    if (!parts_->io_thread.joinable()) return;
    Parts& parts = *parts_;
    parts.engine.stop();  // its last words are in the outbox now
    asio::post(parts.io, [&parts] { parts.server.close(); });
    // Goodbyes are sent within moments, or the peer is gone.
    TimePoint give_up = parts.clock.now() + std::chrono::seconds(1);
    while (parts.clock.now() < give_up) {
        std::promise<std::size_t> open;
        std::future<std::size_t> answer = open.get_future();
        asio::post(parts.io, [&parts, &open] { open.set_value(parts.server.clients()); });
        if (answer.get() == 0) break;
        std::promise<void> tick;
        tick.get_future().wait_for(std::chrono::milliseconds(10));
    }
    asio::post(parts.io, [&parts] {
        parts.server.abandon();
        parts.work.reset();
        parts.io.stop();
    });
    parts.io_thread.join();
    log_info("worker stopped");
}

}  // namespace taproot
