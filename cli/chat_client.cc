// SPDX-License-Identifier: Apache-2.0
#include "cli/chat_client.h"

#include <fmt/format.h>

#include <algorithm>
#include <boost/json/parse.hpp>
#include <boost/json/value.hpp>

#include "base/clock.h"
#include "cli/json_text.h"

namespace taproot::cli {
namespace {

namespace json = boost::json;

std::string request_body(const std::vector<ChatTurn>& turns, const ChatOptions& options) {
    json::array messages;
    for (const ChatTurn& turn : turns)
        messages.push_back({{"role", turn.role}, {"content", turn.content}});
    json::object body;
    if (!options.model.empty()) body["model"] = options.model;
    body["messages"] = std::move(messages);
    if (options.max_tokens > 0) body["max_tokens"] = options.max_tokens;
    body["temperature"] = options.temperature;
    body["stream"] = true;
    if (options.ignore_eos) body["ignore_eos"] = true;
    if (options.return_token_ids) body["return_token_ids"] = true;
    body["stream_options"] = json::object{{"include_usage", true}};
    return json_text(body);
}

std::string error_message(const json::value& body, std::string_view fallback) {
    boost::system::error_code ignored;
    const json::value* message = body.find_pointer("/error/message", ignored);
    return message != nullptr && message->is_string() ? std::string(message->get_string().c_str())
                                                      : std::string(fallback);
}

std::uint32_t count_at(const json::value& event, const char* pointer) {
    boost::system::error_code ignored;
    const json::value* found = event.find_pointer(pointer, ignored);
    return found != nullptr && found->is_int64() ? static_cast<std::uint32_t>(found->get_int64())
                                                 : 0;
}

// Collects one stream. Times are taken when a line arrives.
struct StreamReader {
    ChatReply reply;
    TimePoint sent = std::chrono::steady_clock::now();
    TimePoint first{};
    TimePoint last{};
    std::string error;
    bool done = false;
    const std::atomic<bool>* stop = nullptr;
    const std::function<void(std::string_view)>* on_text = nullptr;

    bool take(std::string_view line) {
        bool more = read(line);
        if (stop == nullptr || !stop->load()) return more;
        done = true;
        return false;
    }

    bool read(std::string_view line) {
        if (!line.starts_with("data:")) return true;
        line.remove_prefix(5);
        line.remove_prefix(std::min(line.find_first_not_of(' '), line.size()));
        if (line == "[DONE]") {
            done = true;
            return true;
        }
        boost::system::error_code code;
        json::value event = json::parse(json::string_view(line.data(), line.size()), code);
        if (code) {
            error = "the stream holds something that is not JSON";
            return false;
        }
        if (event.is_object() && event.get_object().contains("error")) {
            error = error_message(event, "the stream failed");
            return true;
        }
        take_event(event);
        return true;
    }

    void take_event(const json::value& event) {
        boost::system::error_code ignored;
        if (const json::value* usage = event.find_pointer("/usage", ignored);
            usage != nullptr && usage->is_object()) {
            reply.prompt_tokens = count_at(event, "/usage/prompt_tokens");
            reply.completion_tokens = count_at(event, "/usage/completion_tokens");
            reply.cached_tokens = count_at(event, "/usage/prompt_tokens_details/cached_tokens");
        }
        const json::value* ids = event.find_pointer("/choices/0/token_ids", ignored);
        if (ids != nullptr && ids->is_array())
            for (const json::value& id : ids->get_array())
                if (id.is_int64())
                    reply.token_ids.push_back(static_cast<std::int32_t>(id.get_int64()));
        const json::value* text = event.find_pointer("/choices/0/delta/content", ignored);
        if (text == nullptr || !text->is_string() || text->get_string().empty()) return;
        TimePoint now = std::chrono::steady_clock::now();
        if (first == TimePoint{})
            first = now;
        else
            reply.itl_max_ms = std::max(reply.itl_max_ms, to_ms(now - last));
        last = now;
        reply.text_times.push_back(now);
        reply.text.append(text->get_string().data(), text->get_string().size());
        if (on_text != nullptr && *on_text)
            (*on_text)({text->get_string().data(), text->get_string().size()});
    }
};

}  // namespace

Result<ChatReply> stream_chat(const HttpClient& client, const std::vector<ChatTurn>& turns,
                              const ChatOptions& options,
                              const std::function<void(std::string_view)>& on_text) {
    StreamReader reader;
    reader.on_text = &on_text;
    reader.stop = options.stop;
    std::string body = request_body(turns, options);
    reader.sent = std::chrono::steady_clock::now();
    TAPROOT_TRY(ClientResponse response,
                client.post("/v1/chat/completions", body,
                            [&reader](std::string_view line) { return reader.take(line); }));
    TimePoint end = std::chrono::steady_clock::now();
    if (response.status != 200) {
        boost::system::error_code code;
        json::value parsed = json::parse(response.body, code);
        return Error{ErrorCode::kUnavailable,
                     fmt::format("HTTP {}: {}", response.status,
                                 code ? response.body.substr(0, 200) : error_message(parsed, "?"))};
    }
    if (!reader.error.empty()) return Error{ErrorCode::kUnavailable, reader.error};
    if (!reader.done) return Error{ErrorCode::kIo, "the stream ended without [DONE]"};
    ChatReply reply = std::move(reader.reply);
    TimePoint first = reader.first == TimePoint{} ? end : reader.first;
    reply.ttft_ms = to_ms(first - reader.sent);
    reply.decode_ms = to_ms(end - first);
    reply.worker = response.headers["x-taproot-worker"];
    reply.request_id = response.headers["x-request-id"];
    return reply;
}

}  // namespace taproot::cli
