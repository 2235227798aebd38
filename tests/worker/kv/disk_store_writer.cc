// SPDX-License-Identifier: Apache-2.0
// disk_store_writer PATH FIRST: puts blocks FIRST, FIRST + 1, ... into the store at PATH until it
// is killed, and writes the number of each block to standard output once it is flushed (as 8
// bytes). For disk_store_kill_test.
#include <unistd.h>

#include <cstdio>
#include <cstdlib>

#include "tests/worker/kv/disk_store_harness.h"

int main(int argc, char** argv) {
    using namespace taproot;
    using namespace taproot::testing;
    if (argc != 3) return std::fprintf(stderr, "usage: disk_store_writer PATH FIRST\n"), 2;
    DiskStoreOptions options;
    options.path = argv[1];
    options.max_bytes = 16_MiB;
    auto store = DiskStore::open(options, kIdentity, kPageBytes);
    if (!store) return std::fprintf(stderr, "%s\n", store.error().describe().c_str()), 1;
    for (std::uint64_t n = std::strtoull(argv[2], nullptr, 10);; ++n) {
        if (put(**store, n) == DiskPut::kFailed) return 1;
        if (n % 5 != 0) continue;
        if (!(*store)->flush(kLong)) return 1;
        if (::write(STDOUT_FILENO, &n, sizeof n) != sizeof n) return 0;
    }
}
