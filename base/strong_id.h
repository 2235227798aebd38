// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <compare>
#include <cstddef>
#include <functional>

namespace taproot {

// An integer with a name: BlockId{7} never meets WorkerId{7}. Same size and cost as Rep.
template <typename Tag, typename Rep>
struct StrongId {
    Rep value = 0;

    friend constexpr bool operator==(StrongId, StrongId) = default;
    friend constexpr auto operator<=>(StrongId, StrongId) = default;
};

}  // namespace taproot

template <typename Tag, typename Rep>
struct std::hash<taproot::StrongId<Tag, Rep>> {
    std::size_t operator()(taproot::StrongId<Tag, Rep> id) const noexcept {
        return std::hash<Rep>{}(id.value);
    }
};
