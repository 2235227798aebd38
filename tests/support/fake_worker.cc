// SPDX-License-Identifier: Apache-2.0
#include "tests/support/fake_worker.h"

#include <algorithm>
#include <utility>

#include "base/assert.h"
#include "link/codec.h"

namespace taproot::testing {

FakeWorker::FakeWorker(asio::io_context& io, Options options)
    : io_(io),
      options_(std::move(options)),
      text_bytes_(link::encode_text_model(options_.text)),
      address_(options_.address) {
    link::Hello& hello = options_.hello;
    if (hello.epoch == 0) hello.epoch = 1;
    if (hello.text_digest == 0) hello.text_digest = link::text_digest(text_bytes_);
    if (hello.vocab == 0) hello.vocab = static_cast<std::uint32_t>(options_.text.tokens.size());
    if (hello.max_model_len == 0) hello.max_model_len = 8'192;
    if (hello.max_num_seqs == 0) hello.max_num_seqs = 64;
    if (hello.blocks_total == 0) hello.blocks_total = 1'000;
    if (hello.prefill_ms_per_token == 0) hello.prefill_ms_per_token = 0.25;
    if (hello.isa.empty()) hello.isa = "fake";
    if (hello.build.empty()) hello.build = "0.0.0";
    listen();
}

void FakeWorker::listen() {
    auto listener = link::LinkListener::listen(
        io_, address_, {}, [this](std::shared_ptr<link::LinkConnection> connection) {
            connections_.push_back(connection);
            link::LinkConnection::WorkerEnd end;
            end.on_message = [this, weak = connection->weak_from_this()](link::ToWorker&& message) {
                if (auto from = weak.lock()) on_message(from, std::move(message));
            };
            end.on_closed = [this, raw = connection.get()](const Error&) {
                std::erase_if(connections_, [raw](const auto& each) { return each.get() == raw; });
            };
            connection->start(std::move(end));
            if (options_.sends_hello)
                connection->send(link::ToGateway(options_.hello)).ignore("a test sees it");
        });
    TAPROOT_ASSERT(listener.has_value());
    listener_ = std::move(*listener);
    address_ = listener_->bound_address();
}

void FakeWorker::drop_connections() {
    for (const auto& connection : std::exchange(connections_, {})) connection->abandon();
}

void FakeWorker::die() {
    listener_.reset();
    drop_connections();
}

void FakeWorker::restart() {
    TAPROOT_ASSERT(listener_ == nullptr);
    ++options_.hello.epoch;
    held_.clear();
    next_seq_ = 0;
    loses_events_ = false;
    listen();
}

void FakeWorker::on_message(const std::shared_ptr<link::LinkConnection>& connection,
                            link::ToWorker&& message) {
    if (auto* generate = std::get_if<link::Generate>(&message)) {
        generates.push_back(std::move(*generate));
        link::Generate copy = generates.back();  // the engine may add to `generates`
        if (options_.on_generate) options_.on_generate(*this, copy);
    } else if (const auto* cancel = std::get_if<link::Cancel>(&message)) {
        cancels.push_back(cancel->request);
    } else if (const auto* choice = std::get_if<link::CancelChoice>(&message)) {
        cancelled_choices.push_back(*choice);
    } else if (const auto* text = std::get_if<link::FetchText>(&message)) {
        ++text_fetches;
        if (options_.answers_text)
            connection->send(link::ToGateway(link::TextBundle{text->digest, text_bytes_}))
                .ignore("a test sees it");
    } else if (std::holds_alternative<link::FetchSnapshot>(message)) {
        ++snapshot_fetches;
        if (options_.answers_snapshot) connection->send(snapshot()).ignore("a test sees it");
    } else if (const auto* ping = std::get_if<link::Ping>(&message)) {
        connection->send(link::ToGateway(link::Pong{ping->nonce})).ignore("a test sees it");
    }
}

// --- answers -------------------------------------------------------------------------------------

void FakeWorker::send_hello() {
    send(link::ToGateway(options_.hello));
}

void FakeWorker::send_snapshot() {
    send(snapshot());
}

link::KvSnapshot FakeWorker::snapshot() const {
    return {options_.hello.epoch, next_seq_, held_};
}

void FakeWorker::send_started(const link::Generate& generate, std::uint32_t cached_tokens) {
    link::StepOutput step;
    step.started.push_back(
        {generate.request, static_cast<std::uint32_t>(generate.prompt.size()), cached_tokens, 0.5});
    send(step);
}

void FakeWorker::send_token(RequestId request, TokenId token, link::FinishReason finish,
                            std::uint16_t choice) {
    link::StepOutput step;
    link::TokenOutput& output = step.tokens.emplace_back();
    output.request = request;
    output.choice = choice;
    output.token = token;
    output.finish = finish;
    send(step);
}

void FakeWorker::send_finish(RequestId request, link::FinishReason finish, std::uint16_t choice) {
    link::StepOutput step;
    link::TokenOutput& output = step.tokens.emplace_back();
    output.request = request;
    output.choice = choice;
    output.has_token = false;
    output.finish = finish;
    send(step);
}

void FakeWorker::reject(RequestId request, link::RejectReason reason, double retry_after_ms) {
    send(link::ToGateway(link::Rejected{request, reason, "the test says no", retry_after_ms}));
}

void FakeWorker::echo(FakeWorker& worker, const link::Generate& generate) {
    worker.send_started(generate, 0);
    std::size_t count = std::min<std::size_t>(generate.max_tokens, generate.prompt.size());
    for (std::size_t i = 0; i < count; ++i) {
        link::StepOutput step;
        for (std::uint16_t choice = 0; choice < generate.choices; ++choice) {
            link::TokenOutput& output = step.tokens.emplace_back();
            output.request = generate.request;
            output.choice = choice;
            output.token = generate.prompt[generate.prompt.size() - 1 - i];
            if (i + 1 == count)
                output.finish = count == generate.max_tokens ? link::FinishReason::kLength
                                                             : link::FinishReason::kStop;
        }
        worker.send(step);
    }
}

// --- KV events -----------------------------------------------------------------------------------

void FakeWorker::send_events(std::vector<KvEvent> events) {
    link::KvEventBatch batch{options_.hello.epoch, next_seq_, std::move(events)};
    next_seq_ += batch.events.size();
    if (!loses_events_) send(batch);
}

void FakeWorker::store(const std::vector<BlockHash>& chain, BlockHash root) {
    std::vector<KvEvent> events;
    BlockHash parent = root;
    for (BlockHash hash : chain) {
        KvStored stored{hash, parent, KvTier::kDevice};
        held_.push_back(stored);
        events.emplace_back(stored);
        parent = hash;
    }
    send_events(std::move(events));
}

void FakeWorker::remove(BlockHash hash) {
    std::erase_if(held_, [hash](const KvStored& each) { return each.hash == hash; });
    send_events({KvRemoved{hash, KvTier::kDevice}});
}

void FakeWorker::clear() {
    held_.clear();
    send_events({KvCleared{}});
}

}  // namespace taproot::testing
