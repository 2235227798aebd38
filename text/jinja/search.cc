// SPDX-License-Identifier: Apache-2.0
#include "text/jinja/search.h"

#include <string.h>

#include "text/jinja/work.h"

namespace taproot::jinja {

std::size_t find_bytes(std::string_view text, std::string_view needle, std::size_t from) {
    if (from > text.size()) return std::string_view::npos;
    if (needle.empty()) return from;
    // std::string_view::find compares naively; glibc's memmem is the two-way algorithm.
    const void* found =
        ::memmem(text.data() + from, text.size() - from, needle.data(), needle.size());
    if (found == nullptr) return std::string_view::npos;
    return static_cast<std::size_t>(static_cast<const char*>(found) - text.data());
}

std::size_t find_last_bytes(std::string_view text, std::string_view needle) {
    if (needle.empty()) return text.size();
    std::size_t last = std::string_view::npos;
    for (std::size_t at = find_bytes(text, needle, 0); at != std::string_view::npos;
         at = find_bytes(text, needle, at + 1)) {
        spend_bytes(needle.size());
        spend_steps(1);
        last = at;
    }
    return last;
}

}  // namespace taproot::jinja
