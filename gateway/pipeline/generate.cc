// SPDX-License-Identifier: Apache-2.0
#include "gateway/pipeline/generate.h"

#include <fmt/format.h>
#include <xxhash.h>

#include <algorithm>
#include <boost/asio/io_context.hpp>
#include <boost/asio/steady_timer.hpp>
#include <chrono>
#include <memory>
#include <random>

#include "gateway/fleet/model_text.h"
#include "gateway/openai/chat.h"
#include "gateway/openai/errors.h"
#include "gateway/pipeline/generation.h"
#include "gateway/pipeline/model_checks.h"
#include "gateway/stream/render.h"
#include "radix_cache/block_hash.h"

namespace taproot::gateway {
namespace {

using Generations = std::vector<std::unique_ptr<Generation>>;

constexpr std::string_view kEventStream = "text/event-stream; charset=utf-8";

std::uint64_t random_u64() {
    static thread_local std::mt19937_64 engine(std::random_device{}());
    return engine();
}

std::int64_t unix_seconds() {
    return std::chrono::duration_cast<std::chrono::seconds>(
               std::chrono::system_clock::now().time_since_epoch())
        .count();
}

// Everything of one request that several steps share.
struct Request {
    GenerateSpec spec;
    ModelInfo model;
    std::string id;
    TimePoint received;
    RequestProbe* probe = nullptr;
    std::vector<std::vector<TokenId>> prompts = {};
};

// Counts the request as active for as long as it lives, whatever way it ends.
struct ActiveCount {
    explicit ActiveCount(RequestProbe& p) : probe(p) { probe.active.Increment(); }
    ~ActiveCount() { probe.active.Decrement(); }
    ActiveCount(const ActiveCount&) = delete;
    ActiveCount& operator=(const ActiveCount&) = delete;
    RequestProbe& probe;
};

HttpResponse refusal(const ApiError& error, const std::string& request_id) {
    HttpResponse response = error_response(error);
    response.headers.emplace_back("x-request-id", request_id);
    return response;
}

// --- step 2: JSON to native structs, once
// -----------------------------------------------------------

Result<Request> read_request(PipelineContext& context, Endpoint endpoint, Exchange& exchange) {
    std::string_view type = exchange.request().header("content-type");
    std::string_view media = type.substr(0, type.find(';'));
    while (!media.empty() && media.back() == ' ') media.remove_suffix(1);
    if (!equals_ignoring_case(media, "application/json"))
        return invalid_argument("the Content-Type must be application/json");
    std::string body = exchange.take_body();
    TAPROOT_TRY(GenerateSpec spec, endpoint == Endpoint::kChat
                                       ? parse_chat(body, context.config.limits)
                                       : parse_completions(body, context.config.limits));
    const ModelInfo* model = context.fleet.find_model(spec.model);
    if (model == nullptr) {
        if (context.fleet.models().empty())
            return Error{ErrorCode::kUnavailable,
                         "no worker has introduced a model yet; try again shortly"};
        return Error{
            ErrorCode::kNotFound,
            fmt::format("The model `{}` does not exist.", bounded_echo(spec.model.value_or(""))),
            "model"};
    }
    TAPROOT_CHECK_OK(check_token_ids(spec, *model));
    if (!spec.seed_given) spec.sampling.seed = random_u64();
    if (spec.session.empty()) spec.session = std::string(exchange.request().header("x-session-id"));
    Request request{.spec = std::move(spec), .model = *model, .id = {}, .received = {}};
    return request;
}

// --- step 3: template and tokens
// --------------------------------------------------------------------

Awaitable<Result<void>> encode_prompts(PipelineContext& context, Request& request) {
    if (request.spec.endpoint == Endpoint::kChat) {
        auto ids = co_await context.encoder.encode_chat(request.model.text, request.spec.chat);
        if (!ids) co_return std::move(ids).error();
        request.prompts.push_back(std::move(*ids));
    }
    for (CompletionPrompt& prompt : request.spec.prompts) {
        if (auto* ids = std::get_if<TokenPrompt>(&prompt)) {
            request.prompts.push_back(std::move(*ids));
            continue;
        }
        auto ids = co_await context.encoder.encode_text(request.model.text,
                                                        std::move(std::get<TextPrompt>(prompt)),
                                                        request.spec.add_special_tokens);
        if (!ids) co_return std::move(ids).error();
        request.prompts.push_back(std::move(*ids));
    }
    // A template may render to nothing, a text to bytes the vocabulary lacks: a model needs a
    // token.
    for (const auto& prompt : request.prompts)
        if (prompt.empty())
            co_return invalid_argument(
                "the prompt has no tokens",
                request.spec.endpoint == Endpoint::kChat ? "messages" : "prompt");
    co_return Result<void>{};
}

// --- steps 4 to 7: hashes, match, choice, frame
// -----------------------------------------------------

std::variant<std::unique_ptr<Generation>, ApiError> start_generation(PipelineContext& context,
                                                                     Request& request,
                                                                     std::vector<TokenId> prompt,
                                                                     asio::steady_timer& wake) {
    auto limit = generation_limit(request.spec, request.model, prompt.size());
    if (auto* refused = std::get_if<LengthRefusal>(&limit)) return std::move(refused->error);

    link::Generate generate;
    generate.salt = request.spec.cache_salt.empty() ? 0
                                                    : XXH3_64bits(request.spec.cache_salt.data(),
                                                                  request.spec.cache_salt.size());
    generate.max_tokens = std::get<std::uint32_t>(limit);
    generate.choices = request.spec.choices;
    generate.sampling = request.spec.sampling;
    generate.priority = request.spec.priority;
    std::vector<BlockHash> chain;
    hash_blocks(generate.salt, prompt, kBlockTokens, chain);  // 4
    generate.prompt = std::move(prompt);

    Generation::Options options{.fleet = &context.fleet,
                                .history = &context.history,
                                .probe = request.probe,
                                .wake = &wake,
                                .spec = &request.spec,
                                .model = &request.model,
                                .request_id = request.id};
    options.retries = context.config.retries;
    options.may_restart_after_tokens = !request.spec.stream;
    options.received = request.received;
    options.backlog_bytes_max = request.spec.stream ? context.config.limits.slow_reader_bytes : 0;
    if (!request.spec.session.empty())
        options.session = XXH3_64bits(request.spec.session.data(), request.spec.session.size());
    auto generation =
        std::make_unique<Generation>(std::move(options), std::move(generate), std::move(chain));
    Result<void> sent = generation->submit();  // 5, 6, 7
    if (!sent) {
        ApiError error = to_api_error(sent.error());
        if (error.status == 429) error.retry_after_ms = context.fleet.retry_after_ms();
        return error;
    }
    return generation;
}

// --- step 12: text to the client
// ---------------------------------------------------------------------

bool all_done(const Generations& generations) {
    return std::all_of(generations.begin(), generations.end(),
                       [](const auto& g) { return g->done(); });
}

const ApiError* first_failure(const Generations& generations) {
    for (const auto& generation : generations)
        if (generation->failure()) return &*generation->failure();
    return nullptr;
}

Usage total_usage(const Generations& generations) {
    Usage usage;
    for (const auto& generation : generations) {
        usage.prompt_tokens += generation->prompt_tokens();
        usage.completion_tokens += generation->completion_tokens();
        usage.cached_tokens += generation->cached_tokens();
    }
    return usage;
}

HttpHeaders answer_headers(const Request& request, const Generations& generations) {
    std::string workers;
    for (const auto& generation : generations) {
        if (workers.find(generation->worker_name()) != std::string::npos) continue;
        if (!workers.empty()) workers += ",";
        workers += generation->worker_name();
    }
    return {{"x-request-id", request.id},
            {"x-taproot-worker", workers},
            {"x-taproot-cached-tokens", fmt::format("{}", total_usage(generations).cached_tokens)}};
}

AnswerWriter make_writer(const Request& request) {
    AnswerIdentity identity;
    identity.id = fmt::format("{}-{:016x}{:08x}",
                              request.spec.endpoint == Endpoint::kChat ? "chatcmpl" : "cmpl",
                              random_u64(), static_cast<std::uint32_t>(random_u64()));
    identity.created = unix_seconds();
    identity.model = request.model.name;
    identity.fingerprint = request.model.fingerprint;
    return AnswerWriter(request.model.text->tokenizer.vocab(), request.spec, std::move(identity));
}

Awaitable<void> wait_for(asio::steady_timer& wake) {
    wake.expires_at(asio::steady_timer::time_point::max());
    co_await wake.async_wait(use_result);
}

Awaitable<bool> answer_whole(Request& request, Generations& generations, asio::steady_timer& wake,
                             Exchange& exchange) {
    while (!all_done(generations) && first_failure(generations) == nullptr &&
           !exchange.client_gone())
        co_await wait_for(wake);
    if (exchange.client_gone()) co_return false;
    if (const ApiError* failure = first_failure(generations)) {
        co_await exchange.send(refusal(*failure, request.id));
        co_return false;
    }
    std::vector<ChoiceAnswer> answers;
    for (auto& generation : generations)
        for (ChoiceStream& choice : generation->choices()) {
            ChoiceAnswer answer;
            answer.index = static_cast<std::uint32_t>(answers.size());
            answer.all = choice.take();
            answer.finish = choice.finish();
            answer.stop_string = choice.stop_string();
            answer.stop_token = choice.stop_token();
            answers.push_back(std::move(answer));
        }
    HttpResponse response;
    response.headers = answer_headers(request, generations);
    make_writer(request).write_whole(response.body, answers, total_usage(generations));
    co_return co_await exchange.send(std::move(response));
}

// What of each choice has gone out already.
struct Sent {
    bool first = false;
    bool finish = false;
};

// Writes all that is certain now; true when every choice has its finish.
bool write_certain(const AnswerWriter& writer, const GenerateSpec& spec, Generations& generations,
                   std::vector<Sent>& sent, std::string& out) {
    std::uint32_t index = 0;
    bool all_finished = true;
    for (auto& generation : generations) {
        for (ChoiceStream& choice : generation->choices()) {
            Sent& state = sent[index];
            bool news = !choice.pending().empty() || (choice.finished() && !state.finish);
            if (news) {
                Usage usage;
                if (spec.continuous_usage) usage = total_usage(generations);
                const Usage* rides = spec.continuous_usage ? &usage : nullptr;
                if (!std::exchange(state.first, true)) writer.write_first(out, index, rides);
                writer.write_delta(out, index, choice.take(), rides);
                if (choice.finished() && !std::exchange(state.finish, true))
                    writer.write_finish(out, index, choice.finish(), choice.stop_string(),
                                        choice.stop_token(), rides);
            }
            all_finished = all_finished && state.finish;
            ++index;
        }
    }
    return all_finished;
}

Awaitable<bool> answer_stream(Request& request, Generations& generations, asio::steady_timer& wake,
                              Exchange& exchange) {
    AnswerWriter writer = make_writer(request);
    std::vector<Sent> sent(generations.size() * request.spec.choices);
    std::string out;
    bool streaming = false;
    while (true) {
        out.clear();
        bool finished = write_certain(writer, request.spec, generations, sent, out);
        const ApiError* failure = first_failure(generations);
        if (exchange.client_gone()) co_return false;
        if (failure != nullptr && !streaming && out.empty()) {  // nothing sent: a real status
            co_await exchange.send(refusal(*failure, request.id));
            co_return false;
        }
        if (failure != nullptr) {
            AnswerWriter::write_error(out, error_body(*failure));
        } else if (finished) {
            if (request.spec.include_usage) writer.write_usage(out, total_usage(generations));
            AnswerWriter::write_done(out);
        }
        if (!out.empty() && !streaming) {  // headers go with the first token: TTFT is honest
            streaming = true;
            HttpHeaders headers = answer_headers(request, generations);
            headers.emplace_back("Cache-Control", "no-cache");
            headers.emplace_back("X-Accel-Buffering", "no");
            if (!co_await exchange.start_stream(200, kEventStream, headers)) co_return false;
        }
        if (!out.empty() && !co_await exchange.write(out)) co_return false;
        if (failure != nullptr) {  // no end a client could take for a complete answer
            exchange.abort_stream();
            co_return false;
        }
        if (finished) co_return co_await exchange.end_stream();
        bool news = false;
        for (auto& generation : generations)
            news = news || generation->failure() || generation->pending_bytes() > 0 ||
                   generation->done();
        if (!news) co_await wait_for(wake);
    }
}

}  // namespace

std::string request_id_for(const HttpRequest& request) {
    std::string_view given = request.header("x-request-id");
    bool plain = !given.empty() && given.size() <= 128 &&
                 std::all_of(given.begin(), given.end(), [](char c) {
                     return (c >= '0' && c <= '9') || (c >= 'a' && c <= 'z') ||
                            (c >= 'A' && c <= 'Z') || c == '-' || c == '_' || c == '.' ||
                            c == ':' || c == '/' || c == '+' || c == '=';
                 });
    return plain ? std::string(given) : fmt::format("req-{:016x}", random_u64());
}

Awaitable<void> generate(PipelineContext& context, Endpoint endpoint, Exchange& exchange) {
    TimePoint received = std::chrono::steady_clock::now();
    std::string id = request_id_for(exchange.request());

    // 2  JSON to native structs, once
    Result<Request> read = read_request(context, endpoint, exchange);
    if (!read) {
        co_await exchange.send(refusal(to_api_error(read.error()), id));
        co_return;
    }
    Request& request = *read;
    request.id = std::move(id);
    request.received = received;
    request.probe = &context.probe(request.model.name);
    ActiveCount active(*request.probe);

    // 3  messages to token ids; what was tokenised before is not tokenised again
    Result<void> encoded = co_await encode_prompts(context, request);
    if (!encoded) {
        request.probe->refused.Increment();
        co_await exchange.send(refusal(to_api_error(encoded.error()), request.id));
        co_return;
    }

    // 4-7  block hashes, longest match per worker, choice and reservation, frame to the worker
    asio::steady_timer wake(context.io, asio::steady_timer::time_point::max());
    Generations generations;
    for (std::vector<TokenId>& prompt : request.prompts) {
        auto started = start_generation(context, request, std::move(prompt), wake);
        if (auto* error = std::get_if<ApiError>(&started)) {
            generations.clear();  // cancels those already sent
            request.probe->refused.Increment();
            co_await exchange.send(refusal(*error, request.id));
            co_return;
        }
        generations.push_back(std::move(std::get<std::unique_ptr<Generation>>(started)));
        generations.back()->on_overflow([&exchange] { exchange.abort_stream(); });
    }

    // 12  text to the client. One who leaves frees the workers at once, also while queued.
    exchange.on_client_gone([&generations, &wake] {
        for (auto& generation : generations) generation->cancel();
        wake.cancel();
    });
    bool complete = request.spec.stream
                        ? co_await answer_stream(request, generations, wake, exchange)
                        : co_await answer_whole(request, generations, wake, exchange);
    exchange.on_client_gone(nullptr);
    request.probe->e2e_seconds.Observe(to_seconds(std::chrono::steady_clock::now() - received));
    Usage usage = total_usage(generations);
    request.probe->prompt_tokens.Observe(usage.prompt_tokens);
    request.probe->generation_tokens.Observe(usage.completion_tokens);
    if (!complete)
        (exchange.client_gone() && first_failure(generations) == nullptr ? request.probe->cancelled
                                                                         : request.probe->failed)
            .Increment();
    else
        request.probe->completed.Increment();
}

}  // namespace taproot::gateway
