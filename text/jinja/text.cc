// SPDX-License-Identifier: Apache-2.0
#include "text/jinja/text.h"

#include <algorithm>

#include "base/assert.h"

namespace taproot::jinja {

Text::Text(std::string bytes, Origin origin)
    : bytes_(std::move(bytes)), whole_user_(origin == Origin::kUser && !bytes_.empty()) {}

void Text::split_whole_user() {
    if (!whole_user_) return;
    whole_user_ = false;
    user_.push_back({0, bytes_.size()});
}

void Text::mark_user(std::size_t begin, std::size_t end) {
    if (begin == end) return;
    if (!user_.empty() && user_.back().end == begin) {
        user_.back().end = end;
    } else {
        user_.push_back({begin, end});
    }
}

void Text::append(std::string_view bytes, Origin origin) {
    if (bytes.empty()) return;
    if (bytes_.empty()) {
        whole_user_ = origin == Origin::kUser;
    } else if (whole_user_ && origin == Origin::kTemplate) {
        split_whole_user();
    } else if (!whole_user_ && origin == Origin::kUser) {
        mark_user(bytes_.size(), bytes_.size() + bytes.size());
    }
    bytes_.append(bytes);
}

void Text::append(const Text& other) {
    append(other, 0, other.size());
}

void Text::append(const Text& other, std::size_t begin, std::size_t end) {
    TAPROOT_ASSERT(begin <= end && end <= other.size());
    if (begin == end) return;
    const std::string_view source = other.view();
    if (other.whole_user_ || other.user_.empty()) {
        append(source.substr(begin, end - begin),
               other.whole_user_ ? Origin::kUser : Origin::kTemplate);
        return;
    }
    split_whole_user();
    const std::size_t shift = bytes_.size();
    auto range = std::partition_point(other.user_.begin(), other.user_.end(),
                                      [begin](const Range& r) { return r.end <= begin; });
    for (; range != other.user_.end() && range->begin < end; ++range) {
        mark_user(shift + std::max(range->begin, begin) - begin,
                  shift + std::min(range->end, end) - begin);
    }
    bytes_.append(source.substr(begin, end - begin));
}

Text Text::slice(std::size_t begin, std::size_t end) const {
    Text out;
    out.append(*this, begin, end);
    out.markup_ = markup_;
    return out;
}

bool Text::is_user_range(std::size_t begin, std::size_t end) const {
    if (whole_user_) return true;
    return std::any_of(user_.begin(), user_.end(), [begin, end](const Range& range) {
        return range.begin <= begin && end <= range.end;
    });
}

}  // namespace taproot::jinja
