// SPDX-License-Identifier: Apache-2.0
#include "kernels/dispatch.h"

#include <algorithm>
#include <cstdlib>
#include <string>

#include "base/assert.h"
#include "kernels/cpu_features.h"
#include "kernels/ops.h"

namespace taproot {

std::vector<Isa> available_isas() {
    std::vector<Isa> isas = {Isa::kRef};
    if (cpu_features().avx2) isas.push_back(Isa::kAvx2);
    if (cpu_features().avx512) isas.push_back(Isa::kAvx512);
    return isas;
}

Result<Isa> choose_isa() {
    const std::vector<Isa> isas = available_isas();
    const char* wanted = std::getenv("TAPROOT_ISA");
    if (wanted == nullptr || *wanted == '\0') return isas.back();

    for (Isa isa : {Isa::kRef, Isa::kAvx2, Isa::kAvx512}) {
        if (to_string(isa) != wanted) continue;
        if (std::find(isas.begin(), isas.end(), isa) != isas.end()) return isa;
        std::string can;
        for (Isa each : isas) can += (can.empty() ? "" : ", ") + std::string(to_string(each));
        return Error{ErrorCode::kUnsupported,
                     "this CPU or operating system cannot run " + std::string(wanted) +
                         "; it can run: " + can,
                     "TAPROOT_ISA"};
    }
    return invalid_argument(
        "unknown instruction set '" + std::string(wanted) + "'; allowed: ref, avx2, avx512",
        "TAPROOT_ISA");
}

const Ops& ops_for(Isa isa) {
    static const Ops kRefOps = {"ref", ref::linear_ops(), ref::attention_ops(),
                                ref::elementwise_ops()};
#if defined(__x86_64__)
    static const Ops kAvx2Ops = {"avx2", avx2::linear_ops(), avx2::attention_ops(),
                                 avx2::elementwise_ops()};
    static const Ops kAvx512Ops = {"avx512", avx512::linear_ops(), avx512::attention_ops(),
                                   avx512::elementwise_ops()};
    if (isa == Isa::kAvx2) {
        TAPROOT_ASSERT(cpu_features().avx2);
        return kAvx2Ops;
    }
    if (isa == Isa::kAvx512) {
        TAPROOT_ASSERT(cpu_features().avx512);
        return kAvx512Ops;
    }
#endif
    TAPROOT_ASSERT(isa == Isa::kRef);
    return kRefOps;
}

}  // namespace taproot
