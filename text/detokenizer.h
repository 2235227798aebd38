// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <array>
#include <cstdint>
#include <string>
#include <string_view>

#include "base/types.h"
#include "text/vocab.h"

namespace taproot {

// Makes valid UTF-8 of bytes that come in parts. What is appended always ends with a whole
// character; at most 3 bytes of an unfinished one wait. A byte sequence that can no longer become a
// character gives one U+FFFD per longest beginning of a character (the practice of the WHATWG
// decoder, so equal to decoding everything at once). Owner: one thread. O(1) per byte.
class Utf8Assembler {
public:
    void push(std::string_view bytes, std::string* out);
    // No more bytes: an unfinished character becomes U+FFFD.
    void flush(std::string* out);
    [[nodiscard]] std::size_t pending_bytes() const { return pending_bytes_; }

private:
    void push_byte(unsigned char byte, std::string* out);
    void start(unsigned char byte, std::string* out);

    std::array<char, 4> pending_{};
    std::uint8_t pending_bytes_ = 0;
    std::uint8_t needed_ = 0;   // bytes still missing from the character in pending_
    unsigned char low_ = 0x80;  // allowed range of the next byte
    unsigned char high_ = 0xBF;
};

// Token ids to text for one choice of one stream, token by token. Never emits half a character, and
// the concatenation of what it emits does not depend on how the caller groups the tokens.
// Owner: one thread; `vocab` must outlive it. O(bytes of the token) per push.
class Detokenizer {
public:
    struct Options {
        bool skip_special_tokens = true;  // control tokens add no text
    };
    Detokenizer(const Vocab& vocab, Options options) : vocab_(&vocab), options_(options) {}

    // Appends the text that `token` completes, often nothing. An id outside the vocabulary (padding
    // rows of a model's head) has no text.
    void push(TokenId token, std::string* out);
    // The stream ends: appends U+FFFD for a character that was never finished.
    void flush(std::string* out) { assembler_.flush(out); }

    [[nodiscard]] std::size_t pending_bytes() const { return assembler_.pending_bytes(); }

private:
    const Vocab* vocab_;
    Options options_;
    Utf8Assembler assembler_;
};

}  // namespace taproot
