// SPDX-License-Identifier: Apache-2.0
#pragma once

namespace taproot {

// What both the CPU (cpuid) and the operating system (xgetbv: does it save the registers?) allow.
struct CpuFeatures {
    bool avx2;    // AVX2, FMA, F16C
    bool avx512;  // F, BW, VL, DQ, VNNI, on top of avx2
    bool avx512_bf16;
};

const CpuFeatures& cpu_features();

}  // namespace taproot
