// SPDX-License-Identifier: Apache-2.0
#include "text/detokenizer.h"

namespace taproot {
namespace {

constexpr std::string_view kReplacement = "\xEF\xBF\xBD";  // U+FFFD

}  // namespace

void Utf8Assembler::push(std::string_view bytes, std::string* out) {
    for (const char byte : bytes) push_byte(static_cast<unsigned char>(byte), out);
}

void Utf8Assembler::push_byte(unsigned char byte, std::string* out) {
    if (needed_ == 0) {
        start(byte, out);
        return;
    }
    if (byte < low_ || byte > high_) {
        flush(out);
        start(byte, out);
        return;
    }
    low_ = 0x80;
    high_ = 0xBF;
    pending_[pending_bytes_++] = static_cast<char>(byte);
    if (--needed_ != 0) return;
    out->append(pending_.data(), pending_bytes_);
    pending_bytes_ = 0;
}

void Utf8Assembler::start(unsigned char byte, std::string* out) {
    if (byte < 0x80) {
        out->push_back(static_cast<char>(byte));
        return;
    }
    if (byte < 0xC2 || byte > 0xF4) {
        out->append(kReplacement);
        return;
    }
    needed_ = byte < 0xE0 ? 1 : byte < 0xF0 ? 2 : 3;
    // The second byte's range shuts out overlong forms, surrogates and values past U+10FFFF.
    low_ = byte == 0xE0 ? 0xA0 : byte == 0xF0 ? 0x90 : 0x80;
    high_ = byte == 0xED ? 0x9F : byte == 0xF4 ? 0x8F : 0xBF;
    pending_[0] = static_cast<char>(byte);
    pending_bytes_ = 1;
}

void Utf8Assembler::flush(std::string* out) {
    if (pending_bytes_ != 0) out->append(kReplacement);
    pending_bytes_ = 0;
    needed_ = 0;
    low_ = 0x80;
    high_ = 0xBF;
}

void Detokenizer::push(TokenId token, std::string* out) {
    if (options_.skip_special_tokens && vocab_->is_control(token)) return;
    const std::string_view bytes = vocab_->token_bytes(token);
    if (assembler_.pending_bytes() == 0 && vocab_->is_whole_text(token))
        out->append(bytes);
    else
        assembler_.push(bytes, out);
}

}  // namespace taproot
