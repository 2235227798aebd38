// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <bit>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <type_traits>

#include "link/messages.h"

// Fixed-size little-endian records, the inside of binary values (internal to codec.cc).
//   TokenId       | token 4 |                                     float        | value 4 |
//   TokenLogprob  | token 4 | logprob 4 |                         LogitBias    | token 4 | bias 4 |
//   KvStored      | hash 8 | parent 8 | tier 1 |
//   KvEvent       | kind 1 | tier 1 | hash 8 | parent 8 |         unused parts are zero
// `load` returns what is wrong, or nullptr.
namespace taproot::link {

static_assert(std::endian::native == std::endian::little, "records are copied as they lie");

template <typename T>
inline void put(char* to, T value) {
    static_assert(std::is_trivially_copyable_v<T>);
    std::memcpy(to, &value, sizeof(T));
}
template <typename T>
inline T get(const char* from) {
    T value;
    std::memcpy(&value, from, sizeof(T));
    return value;
}

template <typename T>
struct Record;

template <>
struct Record<TokenId> {
    static constexpr std::size_t kBytes = 4;
    static void store(char* to, TokenId token) { put(to, token); }
    static const char* load(const char* from, TokenId* out) {
        *out = get<TokenId>(from);
        return *out < 0 ? "has a negative token id" : nullptr;
    }
};

template <>
struct Record<float> {
    static constexpr std::size_t kBytes = 4;
    static void store(char* to, float value) { put(to, value); }
    static const char* load(const char* from, float* out) {
        *out = get<float>(from);
        return std::isfinite(*out) ? nullptr : "has a value that is not finite";
    }
};

template <>
struct Record<TokenLogprob> {
    static constexpr std::size_t kBytes = 8;
    static void store(char* to, const TokenLogprob& entry) {
        put(to, entry.token);
        put(to + 4, entry.logprob);
    }
    static const char* load(const char* from, TokenLogprob* out) {
        const char* wrong = Record<TokenId>::load(from, &out->token);
        return wrong != nullptr ? wrong : Record<float>::load(from + 4, &out->logprob);
    }
};

template <>
struct Record<LogitBias> {
    static constexpr std::size_t kBytes = 8;
    static void store(char* to, const LogitBias& entry) {
        put(to, entry.token);
        put(to + 4, entry.bias);
    }
    static const char* load(const char* from, LogitBias* out) {
        const char* wrong = Record<TokenId>::load(from, &out->token);
        return wrong != nullptr ? wrong : Record<float>::load(from + 4, &out->bias);
    }
};

inline const char* load_tier(char byte, KvTier* out) {
    if (static_cast<unsigned char>(byte) > static_cast<unsigned char>(KvTier::kDisk))
        return "has an unknown tier";
    *out = static_cast<KvTier>(byte);
    return nullptr;
}

template <>
struct Record<KvStored> {
    static constexpr std::size_t kBytes = 17;
    static void store(char* to, const KvStored& block) {
        put(to, block.hash.value);
        put(to + 8, block.parent.value);
        to[16] = static_cast<char>(block.tier);
    }
    static const char* load(const char* from, KvStored* out) {
        out->hash.value = get<std::uint64_t>(from);
        out->parent.value = get<std::uint64_t>(from + 8);
        return load_tier(from[16], &out->tier);
    }
};

template <>
struct Record<KvEvent> {
    static constexpr std::size_t kBytes = 18;
    enum Kind : char { kStored = 0, kRemoved = 1, kCleared = 2 };

    static void store(char* to, const KvEvent& event) {
        std::memset(to, 0, kBytes);
        to[0] = static_cast<char>(event.index());
        if (const auto* stored = std::get_if<KvStored>(&event)) {
            to[1] = static_cast<char>(stored->tier);
            put(to + 2, stored->hash.value);
            put(to + 10, stored->parent.value);
        } else if (const auto* removed = std::get_if<KvRemoved>(&event)) {
            to[1] = static_cast<char>(removed->tier);
            put(to + 2, removed->hash.value);
        }
    }
    static const char* load(const char* from, KvEvent* out) {
        KvTier tier = KvTier::kDevice;
        if (const char* wrong = load_tier(from[1], &tier)) return wrong;
        BlockHash hash{get<std::uint64_t>(from + 2)};
        BlockHash parent{get<std::uint64_t>(from + 10)};
        if (from[0] == kStored) {
            *out = KvStored{hash, parent, tier};
        } else if (from[0] == kRemoved) {
            *out = KvRemoved{hash, tier};
        } else if (from[0] == kCleared) {
            *out = KvCleared{};
        } else {
            return "has an unknown kind of event";
        }
        return nullptr;
    }
    static_assert(std::is_same_v<std::variant_alternative_t<kStored, KvEvent>, KvStored>);
    static_assert(std::is_same_v<std::variant_alternative_t<kRemoved, KvEvent>, KvRemoved>);
    static_assert(std::is_same_v<std::variant_alternative_t<kCleared, KvEvent>, KvCleared>);
};

}  // namespace taproot::link
