// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <boost/asio/io_context.hpp>
#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "link/link.h"
#include "link/messages.h"
#include "text/text_model.h"

namespace taproot::testing {

// A worker without an engine, speaking the real link: tests say what it answers and when. It keeps
// the KV events it told, so that its snapshots are true; gaps and lies are made on purpose.
// Owner: the thread that runs `io` (usually the test's own, shared with the gateway).
class FakeWorker {
public:
    struct Options {
        link::LinkAddress address;  // TCP on any free port by default
        link::Hello hello;          // epoch, digests and block_tokens are filled when zero
        TextModel text;
        bool answers_text = true;
        bool answers_snapshot = true;
        bool sends_hello = true;
        // Called for each Generate after it was recorded: an automatic engine, e.g. echo().
        std::function<void(FakeWorker&, const link::Generate&)> on_generate;
    };

    FakeWorker(asio::io_context& io, Options options);

    // --- life: constructed listening
    [[nodiscard]] link::LinkAddress address() const { return address_; }
    void die();      // breaks every connection and stops listening, as a killed process does
    void restart();  // after die(): a new epoch, an empty cache, the same address
    void drop_connections();  // a network fault: listens on, same epoch and cache
    [[nodiscard]] std::size_t connections() const { return connections_.size(); }
    Options& options() { return options_; }
    [[nodiscard]] const link::Hello& hello() const { return options_.hello; }

    // --- what gateways sent, in order
    std::vector<link::Generate> generates;
    std::vector<RequestId> cancels;
    std::vector<link::CancelChoice> cancelled_choices;
    std::size_t text_fetches = 0;
    std::size_t snapshot_fetches = 0;

    // --- answers, to every connected gateway
    template <typename Message>
    void send(const Message& message) {
        for (const auto& connection : connections_)
            connection->send(message).ignore("a test sees what arrives");
    }
    void send_started(const link::Generate& generate, std::uint32_t cached_tokens);
    // One token of one choice; `finish` other than kNone ends the choice.
    void send_token(RequestId request, TokenId token,
                    link::FinishReason finish = link::FinishReason::kNone,
                    std::uint16_t choice = 0);
    void send_finish(RequestId request, link::FinishReason finish, std::uint16_t choice = 0);
    void reject(RequestId request, link::RejectReason reason, double retry_after_ms = 0);
    void send_hello();
    void send_snapshot();

    // --- KV events. A chain of block hashes held from its root on; numbering is kept.
    void store(const std::vector<BlockHash>& chain, BlockHash root = {});
    void remove(BlockHash hash);
    void clear();
    // The next events are kept from the gateways: they will see a gap with the ones after.
    void lose_events(bool lose) { loses_events_ = lose; }
    [[nodiscard]] std::uint64_t next_seq() const { return next_seq_; }

    // An engine for on_generate: reports no cached tokens, answers with the prompt's tokens from
    // the last one backwards, up to max_tokens, then finishes with kLength (or kStop when the
    // prompt ran out). Every choice alike.
    static void echo(FakeWorker& worker, const link::Generate& generate);

private:
    void listen();
    void on_message(const std::shared_ptr<link::LinkConnection>& connection,
                    link::ToWorker&& message);
    void send_events(std::vector<KvEvent> events);
    [[nodiscard]] link::KvSnapshot snapshot() const;

    asio::io_context& io_;
    Options options_;
    std::string text_bytes_;
    link::LinkAddress address_;
    std::unique_ptr<link::LinkListener> listener_;
    std::vector<std::shared_ptr<link::LinkConnection>> connections_;
    std::vector<KvStored> held_;
    std::uint64_t next_seq_ = 0;
    bool loses_events_ = false;
};

}  // namespace taproot::testing
