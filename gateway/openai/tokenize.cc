// SPDX-License-Identifier: Apache-2.0
#include "gateway/openai/tokenize.h"

#include <fmt/format.h>

#include "gateway/fleet/model_text.h"
#include "gateway/openai/chat.h"
#include "gateway/openai/errors.h"
#include "gateway/openai/field_reader.h"
#include "gateway/openai/json_reader.h"
#include "gateway/openai/json_writer.h"
#include "text/detokenizer.h"

namespace taproot::gateway {
namespace {

namespace json = boost::json;

constexpr std::size_t kTextBytesMax = std::size_t{1} << 31;

struct TokenizeRequest {
    ModelInfo model;
    std::optional<std::string> text;
    ChatPrompt chat;  // when there is no text
    bool add_special = true;
    bool with_pieces = false;
};

Result<ModelInfo> find_model(PipelineContext& context, FieldReader& fields) {
    std::optional<std::string> name = fields.string("model", 512);
    if (!fields.ok()) return fields.error();
    const ModelInfo* model = context.fleet.find_model(name);
    if (model != nullptr) return *model;
    if (context.fleet.models().empty())
        return Error{ErrorCode::kUnavailable,
                     "no worker has introduced a model yet; try again shortly"};
    return Error{ErrorCode::kNotFound,
                 fmt::format("The model `{}` does not exist.", bounded_echo(name.value_or(""))),
                 "model"};
}

Result<TokenizeRequest> read_tokenize(PipelineContext& context, std::string_view body) {
    TAPROOT_TRY(json::object object, parse_json_object(body, context.config.limits.json_depth));
    FieldReader fields(object);
    TAPROOT_TRY(ModelInfo model, find_model(context, fields));
    TokenizeRequest request{.model = std::move(model), .text = {}, .chat = {}};
    request.text = fields.string("prompt", kTextBytesMax);
    bool llama_shape = false;
    if (auto content = fields.string("content", kTextBytesMax)) {
        request.text = std::move(content);
        llama_shape = true;
    }
    if (!request.text) parse_chat_prompt(fields, &request.chat);
    // vLLM adds special tokens unless told not to; llama-server only when told to.
    request.add_special =
        fields.boolean(llama_shape ? "add_special" : "add_special_tokens").value_or(!llama_shape);
    request.with_pieces = fields.boolean("return_token_strs").value_or(false);
    request.with_pieces = fields.boolean("with_pieces").value_or(request.with_pieces);
    if (!fields.ok()) {
        Error error = fields.error();
        if (error.where == "messages" && object.if_contains("messages") == nullptr)
            error =
                invalid_argument("one of 'prompt', 'content' or 'messages' is required", "prompt");
        return error;
    }
    return request;
}

std::string tokens_json(const TokenizeRequest& request, const std::vector<TokenId>& ids) {
    std::string out = fmt::format("{{\"count\":{},\"max_model_len\":{},\"tokens\":[", ids.size(),
                                  request.model.max_model_len);
    for (std::size_t i = 0; i < ids.size(); ++i) {
        if (i > 0) out += ',';
        append_json_number(out, std::int64_t{ids[i]});
    }
    out += ']';
    if (request.with_pieces) {
        out += ",\"token_strs\":[";
        for (std::size_t i = 0; i < ids.size(); ++i) {
            if (i > 0) out += ',';
            std::string piece;
            Utf8Assembler assembler;
            assembler.push(request.model.text->tokenizer.token_bytes(ids[i]), &piece);
            assembler.flush(&piece);
            append_json_string(out, piece);
        }
        out += ']';
    }
    out += '}';
    return out;
}

Result<std::string> detokenize_body(PipelineContext& context, std::string_view body) {
    TAPROOT_TRY(json::object object, parse_json_object(body, context.config.limits.json_depth));
    FieldReader fields(object);
    TAPROOT_TRY(ModelInfo model, find_model(context, fields));
    const json::array* tokens = fields.array("tokens");
    if (tokens == nullptr) fields.fail("tokens", "'tokens' is required: an array of token ids");
    if (!fields.ok()) return fields.error();
    std::vector<TokenId> ids;
    ids.reserve(tokens->size());
    for (const json::value& token : *tokens) {
        std::int64_t id = token.is_int64() ? token.get_int64() : -1;
        if (id < 0 || id >= static_cast<std::int64_t>(model.text->tokenizer.vocab_size()))
            return invalid_argument(
                fmt::format("'tokens' must hold token ids of this model (0..{})",
                            model.text->tokenizer.vocab_size() - 1),
                "tokens");
        ids.push_back(static_cast<TokenId>(id));
    }
    TAPROOT_TRY(std::string bytes, model.text->tokenizer.decode(ids, false));
    std::string text;
    Utf8Assembler assembler;
    assembler.push(bytes, &text);
    assembler.flush(&text);
    std::string out = "{\"prompt\":";
    append_json_string(out, text);
    out += ",\"content\":";
    append_json_string(out, text);
    out += '}';
    return out;
}

}  // namespace

Awaitable<void> tokenize(PipelineContext& context, Exchange& exchange) {
    std::string body = exchange.take_body();
    Result<TokenizeRequest> request = read_tokenize(context, body);
    if (!request) {
        co_await exchange.send(error_response(to_api_error(request.error())));
        co_return;
    }
    Result<std::vector<TokenId>> ids = std::vector<TokenId>{};
    if (request->text)
        ids = co_await context.encoder.encode_text(request->model.text, std::move(*request->text),
                                                   request->add_special);
    else
        ids = co_await context.encoder.encode_chat(request->model.text, request->chat);
    HttpResponse response;
    if (ids)
        response.body = tokens_json(*request, *ids);
    else
        response = error_response(to_api_error(ids.error()));
    co_await exchange.send(std::move(response));
}

Awaitable<void> detokenize(PipelineContext& context, Exchange& exchange) {
    std::string body = exchange.take_body();
    Result<std::string> answer = detokenize_body(context, body);
    HttpResponse response;
    if (answer)
        response.body = std::move(*answer);
    else
        response = error_response(to_api_error(answer.error()));
    co_await exchange.send(std::move(response));
}

}  // namespace taproot::gateway
