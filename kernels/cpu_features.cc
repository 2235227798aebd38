// SPDX-License-Identifier: Apache-2.0
#include "kernels/cpu_features.h"

#include <cstdint>

#if defined(__x86_64__)
#include <cpuid.h>
#endif

namespace taproot {
namespace {

#if defined(__x86_64__)

struct Registers {
    unsigned a = 0, b = 0, c = 0, d = 0;
};

Registers cpuid(unsigned leaf, unsigned subleaf) {
    Registers r;
    if (__get_cpuid_count(leaf, subleaf, &r.a, &r.b, &r.c, &r.d) == 0) return {};
    return r;
}

bool bit(unsigned word, int index) {
    return (word >> index & 1u) != 0;
}

// The register sets that the operating system saves (XCR0). Inline assembly, because the intrinsic
// needs a compiler flag that this file must not have.
std::uint64_t saved_state() {
    std::uint32_t low = 0;
    std::uint32_t high = 0;
    __asm__ volatile("xgetbv" : "=a"(low), "=d"(high) : "c"(0));
    return std::uint64_t{high} << 32 | low;
}

CpuFeatures detect() {
    constexpr std::uint64_t kYmm = 0x06;  // SSE and AVX
    constexpr std::uint64_t kZmm = 0xe6;  // and opmask, upper halves, upper registers
    const Registers one = cpuid(1, 0);
    const Registers seven = cpuid(7, 0);
    const Registers seven_one = cpuid(7, 1);
    const std::uint64_t saved = bit(one.c, 27) ? saved_state() : 0;  // OSXSAVE

    CpuFeatures features{};
    features.avx2 = (saved & kYmm) == kYmm && bit(one.c, 28) && bit(one.c, 12) && bit(one.c, 29) &&
                    bit(seven.b, 5);
    features.avx512 = features.avx2 && (saved & kZmm) == kZmm && bit(seven.b, 16) &&
                      bit(seven.b, 17) && bit(seven.b, 30) && bit(seven.b, 31) && bit(seven.c, 11);
    features.avx512_bf16 = features.avx512 && bit(seven_one.a, 5);
    return features;
}

#else

CpuFeatures detect() {
    return {};
}

#endif

}  // namespace

const CpuFeatures& cpu_features() {
    static const CpuFeatures kFeatures = detect();
    return kFeatures;
}

}  // namespace taproot
