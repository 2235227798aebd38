// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <memory>
#include <unordered_map>
#include <vector>

#include "base/metrics.h"
#include "base/net/aliases.h"
#include "base/result.h"
#include "gateway/fleet/model_text.h"
#include "gateway/openai/generate_spec.h"
#include "text/prefix_token_cache.h"

namespace boost::asio {
class io_context;
class thread_pool;
}  // namespace boost::asio

namespace taproot::gateway {

// Messages or text to token ids. What was tokenised before is looked up, not done again; a long
// prompt is tokenised beside the I/O thread, so that /health and running streams do not wait for
// it. Owner: the I/O thread. Cost for a chat whose beginning is known: about 1 us per KB.
class PromptEncoder {
public:
    // cache_bytes: for all models together. threads >= 1.
    PromptEncoder(boost::asio::io_context& io, std::uint64_t cache_bytes, std::uint32_t threads,
                  Metrics& metrics);
    ~PromptEncoder();  // waits for what is being tokenised

    // The template's errors (it may refuse a conversation) are kInvalidArgument at "messages".
    Awaitable<Result<std::vector<TokenId>>> encode_chat(std::shared_ptr<const ModelText> text,
                                                        const ChatPrompt& chat);
    Awaitable<Result<std::vector<TokenId>>> encode_text(std::shared_ptr<const ModelText> text,
                                                        std::string prompt,
                                                        bool add_special_tokens);

private:
    struct Job;
    struct Caches;
    Awaitable<Result<std::vector<TokenId>>> encode(std::shared_ptr<Job> job);
    Caches& caches_for(const std::shared_ptr<const ModelText>& text);

    boost::asio::io_context& io_;
    std::uint64_t cache_bytes_;
    std::unique_ptr<boost::asio::thread_pool> pool_;
    std::unordered_map<std::uint64_t, std::shared_ptr<Caches>> caches_;  // by text digest
    prometheus::Counter& bytes_encoded_;
    prometheus::Counter& bytes_reused_;
};

}  // namespace taproot::gateway
