// SPDX-License-Identifier: Apache-2.0
#include "gateway/pipeline/prompt_encoder.h"

#include <boost/asio/io_context.hpp>
#include <boost/asio/post.hpp>
#include <boost/asio/steady_timer.hpp>
#include <boost/asio/thread_pool.hpp>
#include <mutex>
#include <random>

namespace taproot::gateway {
namespace {

// Below this, tokenising takes less than the hop to another thread costs others (about 1 ms at
// worst).
constexpr std::size_t kInlineBytesMax = 32 * 1024;
constexpr std::size_t kPromptBytesMax = std::size_t{1} << 31;

}  // namespace

// One text to tokenise; owned by the coroutine and by the thread that works on it.
struct PromptEncoder::Job {
    std::shared_ptr<const ModelText> text;
    std::vector<TextPiece> pieces;
    bool add_special_tokens = false;
    std::vector<TokenId> ids;
};

// Two caches per vocabulary, each with one owner at a time: small prompts on the I/O thread, large
// ones on the pool. A chat moves from one to the other once as it grows.
struct PromptEncoder::Caches {
    Caches(std::shared_ptr<const ModelText> model, std::uint64_t bytes, std::uint64_t seed)
        : text(std::move(model)),
          small(text->tokenizer, bytes / 4, seed),
          large(text->tokenizer, bytes - bytes / 4, seed) {}

    std::shared_ptr<const ModelText> text;  // the caches refer to its tokenizer
    PrefixTokenCache small;                 // owner: the I/O thread
    Tokenizer::Scratch small_scratch;
    std::mutex large_mutex;  // several pool threads; held while one prompt is encoded
    PrefixTokenCache large;
    Tokenizer::Scratch large_scratch;
};

namespace {

void run_encoding(std::span<const TextPiece> pieces, PrefixTokenCache& cache,
                  Tokenizer::Scratch& scratch, std::vector<TokenId>* ids) {
    std::vector<TextSpan> spans;
    spans.reserve(pieces.size());
    for (const TextPiece& piece : pieces) spans.push_back({piece.text, piece.trusted});
    cache.encode_pieces(spans, ids, scratch);
}

}  // namespace

PromptEncoder::PromptEncoder(asio::io_context& io, std::uint64_t cache_bytes, std::uint32_t threads,
                             Metrics& metrics)
    : io_(io),
      cache_bytes_(cache_bytes),
      pool_(std::make_unique<asio::thread_pool>(threads)),
      bytes_encoded_(
          metrics.counter("taproot_gateway_tokenized_bytes_total", "Prompt bytes tokenised.")),
      bytes_reused_(metrics.counter("taproot_gateway_token_cache_bytes_total",
                                    "Prompt bytes whose token ids were known already.")) {}

PromptEncoder::~PromptEncoder() {
    pool_->join();
}

PromptEncoder::Caches& PromptEncoder::caches_for(const std::shared_ptr<const ModelText>& text) {
    std::shared_ptr<Caches>& caches = caches_[text->digest];
    if (!caches) caches = std::make_shared<Caches>(text, cache_bytes_, std::random_device{}());
    return *caches;
}

Awaitable<Result<std::vector<TokenId>>> PromptEncoder::encode_chat(
    std::shared_ptr<const ModelText> text, const ChatPrompt& chat) {
    ChatRequest chat_request;
    chat_request.messages = chat.messages;
    chat_request.template_kwargs = chat.template_kwargs;
    chat_request.add_generation_prompt = chat.add_generation_prompt;
    chat_request.continue_final_message = chat.continue_final_message;
    Result<std::vector<TextPiece>> pieces = text->chat_template.render(chat_request);
    if (!pieces) {
        Error error = std::move(pieces).error();
        if (error.where.empty()) error.where = "messages";
        co_return error;
    }
    auto job = std::make_shared<Job>();
    job->text = std::move(text);
    job->pieces = std::move(*pieces);
    co_return co_await encode(std::move(job));
}

Awaitable<Result<std::vector<TokenId>>> PromptEncoder::encode_text(
    std::shared_ptr<const ModelText> text, std::string prompt, bool add_special_tokens) {
    auto job = std::make_shared<Job>();
    job->text = std::move(text);
    job->pieces.push_back({std::move(prompt), false});
    job->add_special_tokens = add_special_tokens;
    co_return co_await encode(std::move(job));
}

Awaitable<Result<std::vector<TokenId>>> PromptEncoder::encode(std::shared_ptr<Job> job) {
    std::size_t bytes = 0;
    for (const TextPiece& piece : job->pieces) bytes += piece.text.size();
    if (bytes >= kPromptBytesMax)
        co_return Error{ErrorCode::kTooLarge, "the rendered prompt is larger than 2 GiB",
                        "messages"};

    caches_for(job->text);
    std::shared_ptr<Caches> caches = caches_[job->text->digest];
    if (bytes <= kInlineBytesMax) {
        PrefixTokenCache::Stats before = caches->small.stats();
        run_encoding(job->pieces, caches->small, caches->small_scratch, &job->ids);
        bytes_encoded_.Increment(
            static_cast<double>(caches->small.stats().bytes_encoded - before.bytes_encoded));
        bytes_reused_.Increment(
            static_cast<double>(caches->small.stats().bytes_reused - before.bytes_reused));
    } else {
        // The timer never fires by itself: the pool's thread cancels it from the I/O thread when
        // done.
        auto done =
            std::make_shared<asio::steady_timer>(io_, asio::steady_timer::time_point::max());
        auto work = [this, job, caches, done] {
            std::lock_guard lock(caches->large_mutex);
            PrefixTokenCache::Stats before = caches->large.stats();
            run_encoding(job->pieces, caches->large, caches->large_scratch, &job->ids);
            bytes_encoded_.Increment(
                static_cast<double>(caches->large.stats().bytes_encoded - before.bytes_encoded));
            bytes_reused_.Increment(
                static_cast<double>(caches->large.stats().bytes_reused - before.bytes_reused));
            asio::post(io_, [done] { done->cancel(); });
        };
        asio::post(*pool_, std::move(work));
        co_await done->async_wait(use_result);
    }
    if (job->add_special_tokens) job->text->tokenizer.add_bos(&job->ids);
    co_return std::move(job->ids);
}

}  // namespace taproot::gateway
