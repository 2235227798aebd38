// SPDX-License-Identifier: Apache-2.0
#include <xxhash.h>

#include <cstring>
#include <limits>

#include "link/codec.h"
#include "link/msgpack.h"

// A TextModel as bytes: the array
//   [version, model, pre, tokens [string], types bin, merges [string],
//    bos, eos, eot, unknown, padding (nil = none), add_bos, add_eos, chat_template]
namespace taproot::link {
namespace {

constexpr std::uint64_t kTextVersion = 1;
constexpr std::size_t kTextFields = 14;
constexpr std::size_t kTokenBytesMax = 64_KiB;
constexpr std::size_t kTemplateBytesMax = 4_MiB;
constexpr std::size_t kMergesMax = kVocabMax * 2;

void write_strings(MsgpackWriter& out, const std::vector<std::string>& values) {
    out.array(values.size());
    for (const std::string& value : values) out.string(value);
}

void read_strings(MsgpackReader& in, const char* name, std::size_t count_max,
                  std::vector<std::string>& out) {
    std::size_t count = in.array(name, count_max);
    out.reserve(std::min<std::size_t>(count, 1u << 16));
    for (std::size_t i = 0; i < count && in.ok(); ++i)
        out.emplace_back(in.string(name, kTokenBytesMax));
}

void write_id(MsgpackWriter& out, std::optional<TokenId> id) {
    id ? out.sint(*id) : out.nil();
}

std::optional<TokenId> read_id(MsgpackReader& in, const char* name) {
    if (in.take_nil()) return std::nullopt;
    return static_cast<TokenId>(in.sint(name, 0, std::numeric_limits<TokenId>::max()));
}

void read_types(MsgpackReader& in, std::vector<TokenType>& out) {
    std::string_view types = in.binary("TextModel.types", kVocabMax);
    out.reserve(types.size());
    for (char type : types) {
        if (static_cast<unsigned char>(type) > static_cast<unsigned char>(TokenType::kByte))
            return in.fail("TextModel.types", "has an unknown type");
        out.push_back(static_cast<TokenType>(type));
    }
}

}  // namespace

std::string encode_text_model(const TextModel& model) {
    std::string bytes;
    bytes.reserve(model.tokens.size() * 24);
    MsgpackWriter out(bytes);
    out.array(kTextFields);
    out.uint(kTextVersion);
    out.string(model.model);
    out.string(model.pre);
    write_strings(out, model.tokens);
    auto types = out.binary(model.types.size());
    for (std::size_t i = 0; i < model.types.size(); ++i)
        types[i] = static_cast<char>(model.types[i]);
    write_strings(out, model.merges);
    for (auto id : {model.bos, model.eos, model.eot, model.unknown, model.padding})
        write_id(out, id);
    out.boolean(model.add_bos);
    out.boolean(model.add_eos);
    out.string(model.chat_template);
    return bytes;
}

Result<TextModel> decode_text_model(std::string_view bytes) {
    MsgpackReader in(bytes);
    TextModel model;
    if (in.array("TextModel", kTextFields) != kTextFields && in.ok())
        in.fail("TextModel", "has too few fields");
    in.uint("TextModel.version", kTextVersion);
    model.model = in.string("TextModel.model", kNameBytesMax);
    model.pre = in.string("TextModel.pre", kNameBytesMax);
    read_strings(in, "TextModel.tokens", kVocabMax, model.tokens);
    read_types(in, model.types);
    read_strings(in, "TextModel.merges", kMergesMax, model.merges);
    model.bos = read_id(in, "TextModel.bos");
    model.eos = read_id(in, "TextModel.eos");
    model.eot = read_id(in, "TextModel.eot");
    model.unknown = read_id(in, "TextModel.unknown");
    model.padding = read_id(in, "TextModel.padding");
    model.add_bos = in.boolean("TextModel.add_bos");
    model.add_eos = in.boolean("TextModel.add_eos");
    model.chat_template = in.string("TextModel.chat_template", kTemplateBytesMax);
    if (in.ok() && !in.at_end()) in.fail("TextModel", "is followed by other bytes");
    if (in.ok() && !model.types.empty() && model.types.size() != model.tokens.size())
        in.fail("TextModel.types", "has another length than tokens");
    if (!in.ok()) return in.error();
    return model;
}

std::uint64_t text_digest(std::string_view encoded_text_model) {
    std::uint64_t digest = XXH3_64bits(encoded_text_model.data(), encoded_text_model.size());
    return digest != 0 ? digest : 1;
}

}  // namespace taproot::link
