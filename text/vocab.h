// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <array>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

#include "base/result.h"
#include "base/types.h"
#include "text/text_model.h"

namespace taproot {

// What a token is to the text side. The model file has more types; these are the ones that differ
// in what we do.
enum class TokenKind : std::uint8_t {
    kPlain,        // made by merging bytes
    kUserDefined,  // matched as a whole wherever its text occurs
    kControl,      // only where a template or the API puts it: text of a user never becomes one
};

// Ids and the bytes they stand for. Immutable once built; any thread. Ids outside the vocabulary
// are answered, never trusted: they have no bytes. Cost of a lookup by id: two loads.
class Vocab {
public:
    // Refuses: duplicate token texts, more types than tokens, ids (bos, eos, ...) out of range,
    // add_bos without a bos id. A token with an empty text is legal and never produced.
    static Result<Vocab> build(const TextModel& model);

    [[nodiscard]] std::size_t size() const { return kinds_.size(); }
    [[nodiscard]] bool contains(TokenId id) const {
        return id >= 0 && static_cast<std::size_t>(id) < kinds_.size();
    }
    // The bytes that the token adds to the output; may be half a character. Empty for a bad id.
    [[nodiscard]] std::string_view token_bytes(TokenId id) const {
        if (!contains(id)) return {};
        const auto i = static_cast<std::size_t>(id);
        return {bytes_.data() + begins_[i], begins_[i + 1] - begins_[i]};
    }
    [[nodiscard]] TokenKind kind(TokenId id) const {
        return contains(id) ? kinds_[static_cast<std::size_t>(id)] : TokenKind::kPlain;
    }
    [[nodiscard]] bool is_control(TokenId id) const { return kind(id) == TokenKind::kControl; }
    // Whether the token's bytes are whole characters (then they can be sent as they are).
    [[nodiscard]] bool is_whole_text(TokenId id) const {
        return contains(id) && whole_[static_cast<std::size_t>(id)];
    }

    // The token whose text in the model file (byte-level spelling for plain tokens) is `text`.
    [[nodiscard]] std::optional<TokenId> id_of(std::string_view text) const;
    // The plain token of one byte, or -1: some vocabularies have no token for bytes that never
    // occur in text.
    [[nodiscard]] TokenId byte_token(std::uint8_t byte) const { return byte_tokens_[byte]; }

    [[nodiscard]] std::size_t token_bytes_max() const { return token_bytes_max_; }

private:
    Vocab() = default;
    Result<void> set_kinds(const TextModel& model);
    Result<void> set_texts(const TextModel& model);
    void set_byte_tokens();

    std::vector<char> bytes_;  // all tokens' bytes, back to back; views into it survive a move
    std::vector<std::uint32_t> begins_;  // [size + 1] offsets into bytes_
    std::vector<TokenKind> kinds_;       // [size]
    std::vector<bool> whole_;            // [size]
    std::array<TokenId, 256> byte_tokens_{};
    std::size_t token_bytes_max_ = 0;

    struct TextHash {
        using is_transparent = void;
        std::size_t operator()(std::string_view text) const {
            return std::hash<std::string_view>{}(text);
        }
    };
    std::unordered_map<std::string, TokenId, TextHash, std::equal_to<>> ids_;  // by stored text
};

// The byte-level spelling of one byte: printable Latin-1 bytes stand for themselves, the other 68
// for U+0100.. in order, so that every token of a model file is readable text.
char32_t byte_to_char(std::uint8_t byte);

// The bytes behind a byte-level spelling. A text that holds any other character was never spelled
// that way (an added token) and stands for its own bytes.
std::string decode_byte_level(std::string_view text);
// The byte-level spelling of `bytes`.
std::string encode_byte_level(std::string_view bytes);

}  // namespace taproot
