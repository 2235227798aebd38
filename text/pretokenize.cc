// SPDX-License-Identifier: Apache-2.0
#include "text/pretokenize.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <vector>

#include "text/unicode.h"

namespace taproot {
namespace {

// A character as the scanners see it: class bits and length. No bits and no length at the end.
struct Char {
    std::uint32_t bits = 0;
    std::uint32_t bytes = 0;
};

// Patterns that are applied in sequence (split at digits, then split the rest) are one pass here:
// a character of the earlier pattern ends the text for the later one. Stop says which characters.
struct StopNever {
    static bool at(std::uint32_t) { return false; }
};
template <std::uint32_t kBits>
struct StopAt {
    static bool at(std::uint32_t bits) { return (bits & kBits) != 0; }
};
template <std::uint32_t kBits>
struct StopOutside {
    static bool at(std::uint32_t bits) { return (bits & kBits) == 0; }
};

template <typename Stop>
class Scanner {
public:
    Scanner(std::string_view text, std::uint64_t* steps)
        : text_(reinterpret_cast<const unsigned char*>(text.data())),
          end_(text.size()),
          table_(CharTable::instance()),
          steps_(steps) {}

    [[nodiscard]] Char peek(std::size_t pos) const {
        if (pos >= end_) return {};
        const Char c = read(pos);
        return Stop::at(c.bits) ? Char{} : c;
    }
    [[nodiscard]] bool is_byte(std::size_t pos, char byte) const {
        return pos < end_ && text_[pos] == static_cast<unsigned char>(byte);
    }

    // The end of the run of characters from `pos` whose bits under `mask` are `want`.
    [[nodiscard]] std::size_t run(std::size_t pos, std::uint32_t mask, std::uint32_t want) const {
        return run_at_most(pos, mask, want, end_);
    }
    [[nodiscard]] std::size_t run_at_most(std::size_t pos, std::uint32_t mask, std::uint32_t want,
                                          std::size_t count_max) const {
        std::size_t p = pos;
        std::size_t count = 0;
        for (; p < end_ && count < count_max; ++count) {
            const Char c = read(p);
            if ((c.bits & mask) != want || Stop::at(c.bits)) break;
            p += c.bytes;
        }
        add_steps(count + 1);
        return p;
    }
    [[nodiscard]] std::size_t run_of(std::size_t pos, std::uint32_t any_of) const {
        std::size_t p = pos;
        std::size_t count = 0;
        for (; p < end_; ++count) {
            const Char c = read(p);
            if ((c.bits & any_of) == 0 || Stop::at(c.bits)) break;
            p += c.bytes;
        }
        add_steps(count + 1);
        return p;
    }

    // The white-space tail that all patterns share: [\s*[\r\n]+|] \s+(?!\S) | \s+
    // A run that is followed by text leaves its last character to the next piece.
    [[nodiscard]] std::size_t spaces(std::size_t pos, bool lines_first) const {
        std::size_t p = pos;
        std::size_t last = pos;
        std::size_t line_end = 0;
        for (Char c = peek(p); c.bits & kSpace; c = peek(p)) {
            last = p;
            p += c.bytes;
            if (c.bits & kNewline) line_end = p;
            add_steps(1);
        }
        if (lines_first && line_end != 0) return line_end;
        if (peek(p).bytes == 0 || last == pos) return p;
        return last;
    }

    // 's 't 're 've 'm 'll 'd at `pos`, in lower case: the end, or `pos` when there is none.
    [[nodiscard]] std::size_t contraction(std::size_t pos) const {
        if (!is_byte(pos, '\'') || pos + 1 >= end_) return pos;
        const unsigned char a = text_[pos + 1];
        if (a == 's' || a == 't' || a == 'm' || a == 'd') return pos + 2;
        const bool second = (a == 'r' && is_byte(pos + 2, 'e')) ||
                            (a == 'v' && is_byte(pos + 2, 'e')) ||
                            (a == 'l' && is_byte(pos + 2, 'l'));
        return second ? pos + 3 : pos;
    }
    // The same without regard to case, by Unicode's simple folding: U+017F (long s) folds to s.
    [[nodiscard]] std::size_t contraction_folded(std::size_t pos) const {
        if (!is_byte(pos, '\'') || pos + 1 >= end_) return pos;
        const unsigned char a = lower(pos + 1);
        if (a == 's' || a == 't' || a == 'm' || a == 'd') return pos + 2;
        if (a == 0xC5 && is_byte(pos + 2, '\xBF')) return pos + 3;
        const unsigned char b = pos + 2 < end_ ? lower(pos + 2) : 0;
        const bool second = ((a == 'r' || a == 'v') && b == 'e') || (a == 'l' && b == 'l');
        return second ? pos + 3 : pos;
    }

    void add_steps(std::size_t n) const {
        if (steps_ != nullptr) *steps_ += n;
    }

private:
    [[nodiscard]] Char read(std::size_t pos) const {
        const unsigned char byte = text_[pos];
        if (byte < 0x80) return {table_.ascii(byte), 1};
        const DecodedChar c = decode_utf8(text_, pos, end_);
        if (c.bytes == 0) return {kAny, 1};
        return {table_.of(c.code_point), c.bytes};
    }
    [[nodiscard]] unsigned char lower(std::size_t pos) const {
        const unsigned char c = text_[pos];
        return c >= 'A' && c <= 'Z' ? static_cast<unsigned char>(c + 32) : c;
    }

    const unsigned char* text_;
    std::size_t end_;
    const CharTable& table_;
    std::uint64_t* steps_;
};

constexpr std::uint32_t kWordOrSpace = kAny | kSpace | kLetter | kNumber;

// 's|'t|'re|'ve|'m|'ll|'d| ?\p{L}+| ?\p{N}+| ?[^\s\p{L}\p{N}]+|\s+(?!\S)|\s+
template <typename Stop>
std::size_t next_gpt2(const Scanner<Stop>& scan, std::size_t pos) {
    if (const std::size_t end = scan.contraction(pos); end != pos) return end;
    std::size_t body = pos;
    Char c = scan.peek(pos);
    if (scan.is_byte(pos, ' ')) {
        const Char after = scan.peek(pos + 1);
        if (after.bytes != 0 && !(after.bits & kSpace)) {
            body = pos + 1;
            c = after;
        }
    }
    if (c.bits & kLetter) return scan.run_of(body, kLetter);
    if (c.bits & kNumber) return scan.run_of(body, kNumber);
    if (!(c.bits & kSpace)) return scan.run(body, kWordOrSpace, kAny);
    return scan.spaces(pos, false);
}

std::size_t gpt2(std::string_view text, std::size_t pos, std::uint64_t* steps) {
    return next_gpt2(Scanner<StopNever>(text, steps), pos);
}

// 1) \p{N}   2) the gpt-2 pattern
std::size_t smollm(std::string_view text, std::size_t pos, std::uint64_t* steps) {
    const Char first = Scanner<StopNever>(text, steps).peek(pos);
    if (first.bits & kNumber) return pos + first.bytes;
    return next_gpt2(Scanner<StopAt<kNumber>>(text, steps), pos);
}

// 1) [\p{P}\$\+<=>\^~\|]+   2) the gpt-2 pattern   3) \p{N}+   4) [0-9][0-9][0-9]
std::size_t default_pattern(std::string_view text, std::size_t pos, std::uint64_t* steps) {
    const Scanner<StopNever> scan(text, steps);
    const Char first = scan.peek(pos);
    if (first.bits & kDefaultPunctuation) return scan.run_of(pos, kDefaultPunctuation);
    if (first.bits & kNumber) {
        const auto three_at = [&scan](std::size_t p) {
            return scan.run_at_most(p, kAsciiDigit, kAsciiDigit, 3) == p + 3;
        };
        if (three_at(pos)) return pos + 3;
        std::size_t p = pos;
        for (Char c = first; (c.bits & kNumber) && (p == pos || !three_at(p)); c = scan.peek(p))
            p += c.bytes;
        return p;
    }
    if (scan.is_byte(pos, ' ') && (scan.peek(pos + 1).bits & kNumber)) return pos + 1;
    return next_gpt2(Scanner<StopAt<kDefaultPunctuation>>(text, steps), pos);
}

// (?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?W+|\p{N}{1,digits}| ?[^\s W \p{N}]+[\r\n]*
// |\s*[\r\n]+|\s+(?!\S)|\s+          with W = kWordBits
template <std::uint32_t kWordBits, std::size_t kDigits>
std::size_t next_llama(std::string_view text, std::size_t pos, std::uint64_t* steps) {
    const Scanner<StopNever> scan(text, steps);
    if (const std::size_t end = scan.contraction_folded(pos); end != pos) return end;
    const Char c = scan.peek(pos);
    if (c.bits & kWordBits) return scan.run_of(pos, kWordBits);
    if (c.bits & kNumber) return scan.run_at_most(pos, kNumber, kNumber, kDigits);
    if (!(c.bits & kNewline) && (scan.peek(pos + c.bytes).bits & kWordBits))
        return scan.run_of(pos + c.bytes, kWordBits);

    constexpr std::uint32_t kNotOther = kAny | kSpace | kNumber | kWordBits;
    const std::size_t body = scan.is_byte(pos, ' ') ? pos + 1 : pos;
    if ((scan.peek(body).bits & kNotOther) == kAny)
        return scan.run_of(scan.run(body, kNotOther, kAny), kNewline);
    return scan.spaces(pos, true);
}

// The two case-aware word alternatives of o200k and tekken, with U = kUpperLike, W = kLowerLike and
// X = [^\r\n\p{L}\p{N}]:   X?U*W+   then   X?U+W*.   The end, or `pos` when neither matches.
std::size_t cased_word(const Scanner<StopNever>& scan, std::size_t pos) {
    struct Ends {
        std::size_t upper;     // the end of the run of U
        std::size_t with_low;  // the end of U*W+ with the longest U*, 0 when there is no match
    };
    const auto ends_from = [&scan](std::size_t start) {
        Ends ends{start, 0};
        for (Char c = scan.peek(ends.upper); c.bits & kUpperLike; c = scan.peek(ends.upper)) {
            ends.upper += c.bytes;
            // U* may give back down to here: this character is in both sets.
            if (c.bits & kLowerLike) ends.with_low = ends.upper;
            scan.add_steps(1);
        }
        const std::size_t low_end = scan.run_of(ends.upper, kLowerLike);
        if (low_end != ends.upper) ends.with_low = low_end;
        return ends;
    };
    const Char first = scan.peek(pos);
    const bool may_prefix = !(first.bits & (kNewline | kLetter | kNumber));
    const std::size_t after = pos + first.bytes;
    const Ends prefixed = may_prefix ? ends_from(after) : Ends{after, 0};
    if (prefixed.with_low != 0) return prefixed.with_low;
    const Ends plain = ends_from(pos);
    if (plain.with_low != 0) return plain.with_low;
    if (prefixed.upper != after) return prefixed.upper;
    return plain.upper;
}

// cased_word [(?i:'s|...)?] |\p{N}{1,digits}| ?[^\s\p{L}\p{N}]+[\r\n/]*|\s*[\r\n]+|\s+(?!\S)|\s+
template <bool kContractions, std::size_t kDigits>
std::size_t next_o200k(std::string_view text, std::size_t pos, std::uint64_t* steps) {
    const Scanner<StopNever> scan(text, steps);
    if (const std::size_t end = cased_word(scan, pos); end != pos)
        return kContractions ? scan.contraction_folded(end) : end;
    if (scan.peek(pos).bits & kNumber) return scan.run_at_most(pos, kNumber, kNumber, kDigits);
    const std::size_t body = scan.is_byte(pos, ' ') ? pos + 1 : pos;
    if ((scan.peek(body).bits & kWordOrSpace) == kAny) {
        std::size_t end = scan.run(body, kWordOrSpace, kAny);
        while (scan.is_byte(end, '\r') || scan.is_byte(end, '\n') || scan.is_byte(end, '/')) ++end;
        return end;
    }
    return scan.spaces(pos, true);
}

// The third pattern of deepseek-v3, on text without numbers:
//   [!-/:-@\[-`{-~][A-Za-z]+|[^\r\n\p{L}\p{P}\p{S}]?[\p{L}\p{M}]+| ?[\p{P}\p{S}]+[\r\n]*
//   |\s*[\r\n]+|\s+(?!\S)|\s+
// It does not match everything: what lies between two matches (controls, say) is one piece.
template <typename Stop>
std::size_t next_deepseek(const Scanner<Stop>& scan, std::string_view text, std::size_t pos) {
    constexpr std::uint32_t kWord = kLetter | kMark;
    constexpr std::uint32_t kSign = kPunctuation | kSymbol;
    const Char c = scan.peek(pos);
    const Char after = scan.peek(pos + c.bytes);
    const bool ascii = static_cast<unsigned char>(text[pos]) < 0x80;
    if (ascii && (c.bits & kSign) && (after.bits & kAsciiLetter))
        return scan.run_of(pos + 1, kAsciiLetter);
    if (c.bits & kWord) return scan.run_of(pos, kWord);
    if (!(c.bits & (kNewline | kSign)) && (after.bits & kWord))
        return scan.run_of(pos + c.bytes, kWord);
    const std::size_t body = scan.is_byte(pos, ' ') ? pos + 1 : pos;
    if (scan.peek(body).bits & kSign) return scan.run_of(scan.run_of(body, kSign), kNewline);
    if (c.bits & kSpace) return scan.spaces(pos, true);

    constexpr std::uint32_t kMatched = kWord | kSign | kSpace;
    std::size_t end = pos;
    for (Char u = c; u.bytes != 0 && !(u.bits & kMatched); u = scan.peek(end)) {
        if (end != pos && (scan.peek(end + u.bytes).bits & kWord)) break;  // a match starts here
        end += u.bytes;
        scan.add_steps(1);
    }
    return end;
}

// 1) \p{N}{1,3}   2) [U+4E00-U+9FA5 U+3040-U+309F U+30A0-U+30FF]+   3) above
std::size_t deepseek_v3(std::string_view text, std::size_t pos, std::uint64_t* steps) {
    const Scanner<StopNever> scan(text, steps);
    const Char first = scan.peek(pos);
    if (first.bits & kNumber) return scan.run_at_most(pos, kNumber, kNumber, 3);
    if (first.bits & kHanKana)
        return next_deepseek(Scanner<StopOutside<kHanKana>>(text, steps), text, pos);
    return next_deepseek(Scanner<StopAt<kNumber | kHanKana>>(text, steps), text, pos);
}

struct Entry {
    std::string_view name;
    std::size_t (*next)(std::string_view, std::size_t, std::uint64_t*);
    bool ignore_merges = false;
};

constexpr auto kLlama = next_llama<kLetter, 3>;
constexpr auto kQwen2 = next_llama<kLetter, 1>;
constexpr auto kQwen35 = next_llama<kLetter | kMark, 1>;
constexpr auto kGpt4o = next_o200k<true, 3>;
constexpr auto kTekken = next_o200k<false, 1>;

constexpr std::array kEntries = {
    Entry{"codeshell", smollm},
    Entry{"command-r", smollm},
    Entry{"dbrx", kLlama},
    Entry{"deepseek-r1-qwen", kQwen2},
    Entry{"deepseek-v3", deepseek_v3},
    Entry{"default", default_pattern},
    Entry{"exaone", smollm},
    Entry{"falcon3", kLlama, true},
    Entry{"gpt-2", gpt2},
    Entry{"gpt-4o", kGpt4o},
    Entry{"grok-2", kQwen2},
    Entry{"hunyuan", kQwen2},
    Entry{"hunyuan-dense", deepseek_v3},
    Entry{"joyai-llm", deepseek_v3},
    Entry{"kanana2", kGpt4o},
    Entry{"lfm2", kLlama, true},
    Entry{"llama-bpe", kLlama, true},
    Entry{"llama-v3", kLlama, true},
    Entry{"llama3", kLlama, true},
    Entry{"llama4", kGpt4o},
    Entry{"megrez", kQwen2},
    Entry{"mpt", gpt2},
    Entry{"pixtral", kLlama, true},
    Entry{"qwen2", kQwen2},
    Entry{"qwen35", kQwen35},
    Entry{"refact", smollm},
    Entry{"smaug-bpe", kLlama},
    Entry{"smollm", smollm},
    Entry{"stablelm2", kQwen2},
    Entry{"starcoder", smollm},
    Entry{"tekken", kTekken, true},
};

}  // namespace

Result<PreTokenizer> PreTokenizer::from_name(std::string_view name) {
    for (const Entry& entry : kEntries)
        if (entry.name == name) return PreTokenizer(entry.next, entry.ignore_merges);
    return Error{ErrorCode::kUnsupported,
                 fmt::format("{}; a wrong split would quietly degrade every answer. Known: {}",
                             name.empty() ? std::string("the model file names no pre-tokenizer")
                                          : fmt::format("unknown pre-tokenizer '{}'", name),
                             supported_names()),
                 "tokenizer.ggml.pre"};
}

std::string PreTokenizer::supported_names() {
    std::vector<std::string_view> names;
    for (const Entry& entry : kEntries) names.push_back(entry.name);
    std::sort(names.begin(), names.end());
    return fmt::format("{}", fmt::join(names, ", "));
}

std::size_t PreTokenizer::next(std::string_view text, std::size_t pos, std::uint64_t* steps) const {
    return next_(text, pos, steps);
}

}  // namespace taproot
