// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <cstdlib>
#include <span>

#include "base/random.h"

// Where a model test takes its choices from: a seed (gtest) or the bytes of libFuzzer.
namespace taproot::testing {

class OpSource {
public:
    virtual ~OpSource() = default;
    virtual std::uint32_t below(std::uint32_t n) = 0;  // in [0, n); n > 0
    virtual bool done() const = 0;
};

class RandomSource final : public OpSource {
public:
    RandomSource(std::uint64_t seed, int choices) : random_(seed), left_(choices) {}
    std::uint32_t below(std::uint32_t n) override {
        --left_;
        return static_cast<std::uint32_t>(random_.below(n));
    }
    bool done() const override { return left_ <= 0; }

private:
    Random random_;
    int left_;
};

class ByteSource final : public OpSource {
public:
    explicit ByteSource(std::span<const std::uint8_t> bytes) : bytes_(bytes) {}
    std::uint32_t below(std::uint32_t n) override {
        if (bytes_.empty()) return 0;
        std::uint32_t value = bytes_.front();
        bytes_ = bytes_.subspan(1);
        if (n > 256 && !bytes_.empty()) {
            value = value << 8 | bytes_.front();
            bytes_ = bytes_.subspan(1);
        }
        return value % n;
    }
    bool done() const override { return bytes_.empty(); }

private:
    std::span<const std::uint8_t> bytes_;
};

// TAPROOT_SEED replays one failing run; otherwise `count` fixed seeds.
struct Seeds {
    std::uint64_t first = 1;
    std::uint64_t count = 1;
};
inline Seeds seeds(std::uint64_t count) {
    if (const char* text = std::getenv("TAPROOT_SEED")) {
        return {std::strtoull(text, nullptr, 10), 1};
    }
    return {1, count};
}

}  // namespace taproot::testing
