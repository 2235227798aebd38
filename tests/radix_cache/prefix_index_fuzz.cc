// SPDX-License-Identifier: Apache-2.0
#include <cstdio>
#include <cstdlib>

#include "prefix_index_twin.h"

// Bytes choose events, reservations and lookups; the index must agree with its naive twin.
extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
    using namespace taproot::testing;
    if (size > 4096) return 0;
    ByteSource source({data, size});
    PrefixIndexTwin::Setup setup;
    setup.hashes = 2 + source.below(60);
    PrefixIndexTwin twin(source, setup);
    const std::string failure = twin.run();
    if (!failure.empty()) {
        std::fprintf(stderr, "%s\n", failure.c_str());
        std::abort();
    }
    return 0;
}
