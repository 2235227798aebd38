// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string_view>
#include <vector>

#include "base/result.h"

namespace taproot {

struct Ops;

enum class Isa { kRef, kAvx2, kAvx512 };

constexpr std::string_view to_string(Isa isa) {
    return isa == Isa::kRef ? "ref" : isa == Isa::kAvx2 ? "avx2" : "avx512";
}

// Those this CPU and operating system can run, slowest first; always contains kRef.
std::vector<Isa> available_isas();

// The fastest available, or the one TAPROOT_ISA=ref|avx2|avx512 names. Error when that variable
// names something unknown or something this CPU cannot run.
Result<Isa> choose_isa();

// REQUIRES: available.
const Ops& ops_for(Isa isa);

}  // namespace taproot
