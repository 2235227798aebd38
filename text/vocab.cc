// SPDX-License-Identifier: Apache-2.0
#include "text/vocab.h"

#include <fmt/format.h>

#include <algorithm>

#include "text/unicode.h"

namespace taproot {
namespace {

constexpr std::size_t kTokensMax = std::size_t{1} << 24;
constexpr std::size_t kTokenBytesMax = std::size_t{1} << 16;
constexpr char32_t kMappedChars = 0x144;  // one past the last character of the byte-level alphabet

bool stands_for_itself(unsigned byte) {
    return (byte >= 0x21 && byte <= 0x7E) || (byte >= 0xA1 && byte <= 0xAC) || byte >= 0xAE;
}

struct ByteAlphabet {
    std::array<char32_t, 256> chars{};
    std::array<int, kMappedChars> bytes{};  // -1 = not in the alphabet

    ByteAlphabet() {
        bytes.fill(-1);
        char32_t next = 0x100;
        for (unsigned byte = 0; byte < 256; ++byte) {
            chars[byte] = stands_for_itself(byte) ? static_cast<char32_t>(byte) : next++;
            bytes[chars[byte]] = static_cast<int>(byte);
        }
    }
};

const ByteAlphabet& alphabet() {
    static const ByteAlphabet instance;
    return instance;
}

// "<0x0A>" -> 10; -1 when `text` has another form.
int parse_byte_token(std::string_view text) {
    if (text.size() != 6 || !text.starts_with("<0x") || text[5] != '>') return -1;
    int value = 0;
    for (const char c : text.substr(3, 2)) {
        const auto digit = std::string_view("0123456789ABCDEF").find(c);
        if (digit == std::string_view::npos) return -1;
        value = value * 16 + static_cast<int>(digit);
    }
    return value;
}

std::string bytes_of(std::string_view text, TokenType type, TokenKind kind) {
    // Tokens added beside the merges are stored as plain text; the rest in byte-level spelling.
    if (type == TokenType::kControl || type == TokenType::kUserDefined ||
        type == TokenType::kUnknown)
        return std::string(text);
    if (type == TokenType::kByte) {
        if (const int byte = parse_byte_token(text); byte >= 0)
            return std::string(1, static_cast<char>(byte));
    }
    if (kind != TokenKind::kPlain) return std::string(text);
    return decode_byte_level(text);
}

Result<void> check_id(const std::optional<TokenId>& id, std::size_t size, const char* key) {
    if (!id || (*id >= 0 && static_cast<std::size_t>(*id) < size)) return {};
    return invalid_argument(fmt::format("{} is outside the vocabulary of {} tokens", *id, size),
                            key);
}

TokenType type_of(const TextModel& model, std::size_t id) {
    return model.types.empty() ? TokenType::kNormal : model.types[id];
}

}  // namespace

char32_t byte_to_char(std::uint8_t byte) {
    return alphabet().chars[byte];
}

std::string decode_byte_level(std::string_view text) {
    std::string out;
    out.reserve(text.size());
    const auto* bytes = reinterpret_cast<const unsigned char*>(text.data());
    for (std::size_t pos = 0; pos < text.size();) {
        const DecodedChar c = decode_utf8(bytes, pos, text.size());
        if (c.bytes == 0 || c.code_point >= kMappedChars) return std::string(text);
        const int byte = alphabet().bytes[c.code_point];
        if (byte < 0) return std::string(text);
        out.push_back(static_cast<char>(byte));
        pos += c.bytes;
    }
    return out;
}

std::string encode_byte_level(std::string_view bytes) {
    std::string out;
    for (const char byte : bytes) append_utf8(byte_to_char(static_cast<std::uint8_t>(byte)), &out);
    return out;
}

Result<Vocab> Vocab::build(const TextModel& model) {
    const std::size_t size = model.tokens.size();
    if (size == 0) return invalid_argument("the vocabulary is empty", "tokenizer.ggml.tokens");
    if (size > kTokensMax)
        return invalid_argument(fmt::format("{} tokens; at most {}", size, kTokensMax),
                                "tokenizer.ggml.tokens");
    if (!model.types.empty() && model.types.size() != size)
        return invalid_argument(fmt::format("{} types for {} tokens", model.types.size(), size),
                                "tokenizer.ggml.token_type");
    TAPROOT_CHECK_OK(check_id(model.bos, size, "tokenizer.ggml.bos_token_id"));
    TAPROOT_CHECK_OK(check_id(model.eos, size, "tokenizer.ggml.eos_token_id"));
    TAPROOT_CHECK_OK(check_id(model.eot, size, "tokenizer.ggml.eot_token_id"));
    TAPROOT_CHECK_OK(check_id(model.unknown, size, "tokenizer.ggml.unknown_token_id"));
    TAPROOT_CHECK_OK(check_id(model.padding, size, "tokenizer.ggml.padding_token_id"));
    if (model.add_bos && !model.bos)
        return invalid_argument("is true, but the file has no bos_token_id",
                                "tokenizer.ggml.add_bos_token");
    if (model.add_eos && !model.eos)
        return invalid_argument("is true, but the file has no eos_token_id",
                                "tokenizer.ggml.add_eos_token");
    Vocab vocab;
    TAPROOT_CHECK_OK(vocab.set_kinds(model));
    TAPROOT_CHECK_OK(vocab.set_texts(model));
    vocab.set_byte_tokens();
    return vocab;
}

Result<void> Vocab::set_kinds(const TextModel& model) {
    kinds_.assign(model.tokens.size(), TokenKind::kPlain);
    for (std::size_t id = 0; id < kinds_.size(); ++id) {
        switch (type_of(model, id)) {
            case TokenType::kControl:
            case TokenType::kUnknown:
                kinds_[id] = TokenKind::kControl;
                break;
            case TokenType::kUserDefined:
                kinds_[id] = TokenKind::kUserDefined;
                break;
            case TokenType::kUndefined:
            case TokenType::kNormal:
            case TokenType::kUnused:
            case TokenType::kByte:
                break;
            default:
                return invalid_argument(
                    fmt::format("is {}; known types are 0..6", static_cast<int>(model.types[id])),
                    fmt::format("tokenizer.ggml.token_type[{}]", id));
        }
    }
    // Whatever ends a generation is control, even where the file says otherwise: else a user could
    // end the turn of somebody else by typing the token's text.
    for (const TokenId id : end_tokens(model))
        kinds_[static_cast<std::size_t>(id)] = TokenKind::kControl;
    if (model.bos) kinds_[static_cast<std::size_t>(*model.bos)] = TokenKind::kControl;
    return {};
}

Result<void> Vocab::set_texts(const TextModel& model) {
    begins_.reserve(model.tokens.size() + 1);
    begins_.push_back(0);
    whole_.reserve(model.tokens.size());
    ids_.reserve(model.tokens.size());
    for (std::size_t id = 0; id < model.tokens.size(); ++id) {
        const std::string& text = model.tokens[id];
        const std::string where = fmt::format("tokenizer.ggml.tokens[{}]", id);
        if (text.size() > kTokenBytesMax)
            return invalid_argument(
                fmt::format("{} bytes; at most {}", text.size(), kTokenBytesMax), where);
        const auto [found, is_new] = ids_.emplace(text, static_cast<TokenId>(id));
        if (!is_new)
            return invalid_argument(
                fmt::format("has the same text as token {} ({} bytes)", found->second, text.size()),
                where);
        const std::string bytes = bytes_of(text, type_of(model, id), kinds_[id]);
        if (bytes_.size() + bytes.size() > UINT32_MAX)
            return invalid_argument("the texts of all tokens exceed 4 GiB", where);
        token_bytes_max_ = std::max(token_bytes_max_, bytes.size());
        whole_.push_back(is_valid_utf8(bytes));
        bytes_.insert(bytes_.end(), bytes.begin(), bytes.end());
        begins_.push_back(static_cast<std::uint32_t>(bytes_.size()));
    }
    return {};
}

void Vocab::set_byte_tokens() {
    byte_tokens_.fill(-1);
    for (unsigned byte = 0; byte < 256; ++byte) {
        std::string spelled;
        append_utf8(byte_to_char(static_cast<std::uint8_t>(byte)), &spelled);
        // A file may hold a byte as itself instead of in its spelling (a raw NUL, say).
        const std::string raw(1, static_cast<char>(byte));
        for (const std::string& text : {spelled, raw}) {
            const auto id = id_of(text);
            if (!id || kinds_[static_cast<std::size_t>(*id)] == TokenKind::kControl) continue;
            if (token_bytes(*id) != raw) continue;
            byte_tokens_[byte] = *id;
            break;
        }
    }
}

std::optional<TokenId> Vocab::id_of(std::string_view text) const {
    const auto found = ids_.find(text);
    if (found == ids_.end()) return std::nullopt;
    return found->second;
}

}  // namespace taproot
