// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace taproot::jinja {

// Where bytes come from. Only template bytes may become control tokens.
enum class Origin : std::uint8_t { kTemplate, kUser };

// A string that knows, for each byte, whether a user or the template wrote it.
//
//     bytes:  <|im_start|>user\nhello<|im_end|>
//     user:                     [----)              one half-open range, sorted, disjoint, not
//     empty
//
// Origin never shows: it changes no comparison, length or printed byte. Operations that cannot keep
// it exactly (upper, tojson) mark the whole result as the user's when any input byte was.
// Owner: one thread while it is changed; shared read-only afterwards.
class Text {
public:
    Text() = default;
    explicit Text(std::string bytes, Origin origin = Origin::kTemplate);

    [[nodiscard]] const std::string& bytes() const { return bytes_; }
    [[nodiscard]] std::string_view view() const { return bytes_; }
    [[nodiscard]] std::size_t size() const { return bytes_.size(); }
    [[nodiscard]] bool empty() const { return bytes_.empty(); }
    [[nodiscard]] bool has_user_bytes() const { return whole_user_ || !user_.empty(); }
    // For results whose bytes have no one-to-one source.
    [[nodiscard]] Origin blended_origin() const {
        return has_user_bytes() ? Origin::kUser : Origin::kTemplate;
    }

    // `|safe` text escapes what is later added to it with `+`; nothing else depends on it.
    [[nodiscard]] bool is_markup() const { return markup_; }
    void set_markup(bool markup) { markup_ = markup; }

    void reserve(std::size_t bytes) { bytes_.reserve(bytes); }
    void append(std::string_view bytes, Origin origin);
    void append(const Text& other);
    // Bytes [begin, end) of `other`; begin <= end <= other.size().
    void append(const Text& other, std::size_t begin, std::size_t end);
    [[nodiscard]] Text slice(std::size_t begin, std::size_t end) const;

    // Calls visit(std::string_view, Origin) for each maximal run of one origin, in order.
    template <typename Visit>
    void for_each_run(Visit visit) const {
        std::size_t pos = 0;
        if (whole_user_) {
            if (!bytes_.empty()) visit(view(), Origin::kUser);
            return;
        }
        for (const Range& range : user_) {
            if (range.begin > pos) visit(view().substr(pos, range.begin - pos), Origin::kTemplate);
            visit(view().substr(range.begin, range.end - range.begin), Origin::kUser);
            pos = range.end;
        }
        if (pos < bytes_.size()) visit(view().substr(pos), Origin::kTemplate);
    }

    // Whether every byte of [begin, end) is a user's.
    [[nodiscard]] bool is_user_range(std::size_t begin, std::size_t end) const;

private:
    struct Range {
        std::size_t begin;
        std::size_t end;
    };

    void mark_user(std::size_t begin, std::size_t end);
    void split_whole_user();

    std::string bytes_;
    std::vector<Range> user_;  // empty while whole_user_
    bool whole_user_ = false;  // the common case of a message's content, without an allocation
    bool markup_ = false;
};

}  // namespace taproot::jinja
