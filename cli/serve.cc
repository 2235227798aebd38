// SPDX-License-Identifier: Apache-2.0
#include <fmt/format.h>
#include <signal.h>

#include <CLI/CLI.hpp>
#include <filesystem>

#include "base/log.h"
#include "cli/commands.h"
#include "cli/temporary_folder.h"
#include "config/validate.h"
#include "gateway/app.h"
#include "worker/worker_app.h"

namespace taproot::cli {
namespace {

struct ServeOptions {
    std::string model;
    std::string host = "127.0.0.1";
    int port = 8080;
    std::string served_name;
    std::uint32_t max_model_len = 0;
    std::uint32_t max_num_seqs = 0;
    std::vector<std::string> api_keys;
    std::uint32_t threads = 0;
    std::uint64_t kv_bytes = 0;
    std::uint64_t kv_ram_bytes = 0;
    std::string kv_dtype = "auto";
    std::string weights_cache = "off";
    std::string log_level = "info";
};

config::Config make_config(const ServeOptions& options, const std::string& run_dir) {
    config::Config config;
    config.model.path = options.model;
    config.model.name = options.served_name;
    config.model.max_model_len = options.max_model_len;
    config.gateway.listen = fmt::format("{}:{}", options.host, options.port);
    config.gateway.api_keys = options.api_keys;
    config.log.level = options.log_level;
    config.run_dir = run_dir;
    config::Worker worker;
    worker.name = "w0";
    worker.link = fmt::format("unix:{}/w0.sock", run_dir);
    worker.threads = options.threads;
    if (options.max_num_seqs > 0) worker.max_num_seqs = options.max_num_seqs;
    if (options.kv_bytes > 0) worker.kv_bytes = options.kv_bytes;
    worker.kv_ram_bytes = options.kv_ram_bytes;
    if (options.kv_dtype != "auto") worker.kv_dtype = options.kv_dtype;
    worker.weights_cache = options.weights_cache;
    config.workers.push_back(std::move(worker));
    return config;
}

int fail(const Error& error, int code) {
    log_error("cannot start: {}", error.describe());
    return code;
}

int serve(const ServeOptions& options) {
    LogLevel level;
    parse_log_level(options.log_level, &level);
    init_log(level, "taproot");
    TemporaryFolder folder("taproot-serve");
    config::Config config = make_config(options, folder.path());
    if (Result<void> valid = config::validate(config); !valid) return fail(valid.error(), 2);

    // Blocked before threads start, so that only sigwait below sees them.
    sigset_t signals;
    sigemptyset(&signals);
    for (int signal : {SIGTERM, SIGINT}) sigaddset(&signals, signal);
    pthread_sigmask(SIG_BLOCK, &signals, nullptr);

    auto worker = WorkerApp::create(config, "w0");
    if (!worker) return fail(worker.error(), 1);
    if (Result<void> started = (*worker)->start(); !started) return fail(started.error(), 1);
    gateway::GatewayApp app(config);
    if (Result<void> started = app.start(); !started) return fail(started.error(), 1);
    log_info("serving {} at http://{}:{} (Ctrl-C stops)", options.model, options.host, app.port());
    int received = 0;
    sigwait(&signals, &received);
    log_info("signal {}: stopping", received);
    app.stop();
    (*worker)->stop();
    return 0;
}

}  // namespace

void add_serve(CLI::App& app, RunCommand& run) {
    auto options = std::make_shared<ServeOptions>();
    CLI::App* command =
        app.add_subcommand("serve", "Serve one model file: gateway and worker in this process");
    command->add_option("model", options->model, "model file (GGUF)")->required();
    command->add_option("--host", options->host, "address to listen on (default 127.0.0.1)");
    command->add_option("--port", options->port, "port (default 8080, 0 = any free)")
        ->check(CLI::Range(0, 65535));
    command->add_option("--served-model-name", options->served_name,
                        "name in the API (default: the file's name)");
    command
        ->add_option("--max-model-len", options->max_model_len,
                     "prompt + answer tokens (default: the model's context)")
        ->check(CLI::Range(1, 1'048'576));
    command
        ->add_option("--max-num-seqs", options->max_num_seqs,
                     "sequences computed together (default 64)")
        ->check(CLI::Range(1, 4096));
    command->add_option("--api-key", options->api_keys,
                        "key that clients must send (repeat for several)");
    command
        ->add_option("--threads", options->threads,
                     "kernel threads (default: this machine's cores)")
        ->check(CLI::Range(1, 1024));
    command
        ->add_option("--kv-cache-memory-bytes", options->kv_bytes,
                     "size of the KV pool, such as 2GiB (default 1GiB)")
        ->transform(CLI::AsSizeValue(false));
    command
        ->add_option("--kv-ram-bytes", options->kv_ram_bytes,
                     "host memory for cached KV that the pool no longer holds (default none)")
        ->transform(CLI::AsSizeValue(false));
    command
        ->add_option("--kv-cache-dtype", options->kv_dtype,
                     "how cached KV is stored: f16, bf16, f32, int8 or auto (default: f16)")
        ->check(CLI::IsMember({"auto", "f16", "bf16", "f32", "int8"}));
    command->add_option("--weights-cache", options->weights_cache,
                        "repacked weights on disk for the next start: off, auto (beside the model) "
                        "or a path (default off)");
    command->add_option("--log-level", options->log_level, "debug, info, warn, error or off")
        ->check(CLI::IsMember({"debug", "info", "warn", "error", "off"}));
    command->callback([options, &run] { run = [options] { return serve(*options); }; });
}

}  // namespace taproot::cli
