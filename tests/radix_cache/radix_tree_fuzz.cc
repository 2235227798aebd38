// SPDX-License-Identifier: Apache-2.0
#include <cstdio>
#include <cstdlib>

#include "radix_tree_twin.h"

// Bytes choose operations and tokens; the tree must agree with its naive twin after each.
extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
    using namespace taproot::testing;
    if (size > 2048) return 0;
    ByteSource source({data, size});
    RadixTreeTwin::Setup setup;
    setup.block_tokens = 1 + static_cast<int>(source.below(3));
    setup.pool_blocks = 4 + source.below(28);
    RadixTreeTwin twin(source, setup);
    const std::string failure = twin.run();
    if (!failure.empty()) {
        std::fprintf(stderr, "%s\n", failure.c_str());
        std::abort();
    }
    return 0;
}
