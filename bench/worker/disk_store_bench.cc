// SPDX-License-Identifier: Apache-2.0
// disk_store_bench PATH [--blocks N] [--page BYTES] [--cap-mib N] [--direct]
// Puts N pages into an empty disk store, reads those that are still there in random order, closes,
// opens and reads again. PATH must not exist; it is left for the caller to remove. Rates are
// payload bytes by wall clock and by CPU time of the calling thread.
#include <time.h>

#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <string>
#include <string_view>
#include <vector>

#include "base/random.h"
#include "radix_cache/block_hash.h"
#include "worker/kv/disk_store.h"

namespace taproot {
namespace {

struct Settings {
    DiskStoreOptions store;
    std::uint64_t blocks = 1500;
    std::uint64_t page_bytes = 368'640;  // SmolLM2-135M, f16
};

constexpr KvIdentity kIdentity{1, 2};
constexpr Duration kLong{120'000'000'000};

double seconds(clockid_t clock) {
    timespec now{};
    clock_gettime(clock, &now);
    return static_cast<double>(now.tv_sec) + static_cast<double>(now.tv_nsec) * 1e-9;
}

class Stopwatch {
public:
    void report(const char* what, std::uint64_t pages, std::uint64_t page_bytes) const {
        double wall = seconds(CLOCK_MONOTONIC) - wall_;
        double cpu = seconds(CLOCK_THREAD_CPUTIME_ID) - cpu_;
        double megabytes = static_cast<double>(pages * page_bytes) * 1e-6;
        std::printf("%-28s %6llu pages %8.1f MB/s wall %8.1f MB/s cpu %7.3f ms a page\n", what,
                    static_cast<unsigned long long>(pages), megabytes / wall, megabytes / cpu,
                    wall * 1e3 / static_cast<double>(std::max<std::uint64_t>(pages, 1)));
    }

private:
    double wall_ = seconds(CLOCK_MONOTONIC);
    double cpu_ = seconds(CLOCK_THREAD_CPUTIME_ID);
};

StoredBlock block_number(std::uint64_t n) {
    std::array<TokenId, kBlockTokens> tokens{};
    tokens[0] = static_cast<TokenId>(n);
    return make_stored_block(kIdentity, 0, root_hash(0), hash_block(root_hash(0), tokens), tokens);
}

void read_all(DiskStore& store, const Settings& settings, const char* what) {
    std::vector<std::uint64_t> order;
    for (std::uint64_t n = 0; n < settings.blocks; ++n)
        if (store.contains(block_number(n).hash)) order.push_back(n);
    Random random(1);
    for (std::size_t i = order.size(); i > 1; --i) std::swap(order[i - 1], order[random.below(i)]);
    std::vector<std::byte> page(settings.page_bytes);
    Stopwatch watch;
    for (std::uint64_t n : order)
        if (store.get(block_number(n), page).outcome != DiskGet::kHit) std::abort();
    watch.report(what, order.size(), settings.page_bytes);
}

int run(const Settings& settings) {
    auto opened = DiskStore::open(settings.store, kIdentity, settings.page_bytes);
    if (!opened) return std::fprintf(stderr, "%s\n", opened.error().describe().c_str()), 1;
    std::unique_ptr<DiskStore> store = std::move(*opened);
    std::vector<std::byte> page(settings.page_bytes);
    Random random(2);
    for (std::byte& byte : page) byte = static_cast<std::byte>(random.below(256));
    Stopwatch watch;
    for (std::uint64_t n = 0; n < settings.blocks; ++n) {
        page[0] = static_cast<std::byte>(n);
        if (store->put(block_number(n), page) != DiskPut::kStored)
            return std::fprintf(stderr, "%s\n", store->stats().off_reason.c_str()), 1;
    }
    if (!store->flush(kLong)) return 1;
    watch.report("put and flush", settings.blocks, settings.page_bytes);
    DiskStoreStats stats = store->stats();
    std::printf(
        "direct io %d, %.1f MB on disk, write amplification %.4f, %zu generations, %llu "
        "dropped, memory %.1f MB\n",
        stats.direct_io, static_cast<double>(stats.used_bytes) * 1e-6, stats.write_amplification(),
        stats.generations, static_cast<unsigned long long>(stats.dropped_generations),
        static_cast<double>(stats.memory_bytes) * 1e-6);
    read_all(*store, settings, "get, random");
    if (!store->close(kLong)) return 1;
    store.reset();
    opened = DiskStore::open(settings.store, kIdentity, settings.page_bytes);
    if (!opened) return std::fprintf(stderr, "%s\n", opened.error().describe().c_str()), 1;
    stats = (*opened)->stats();
    std::printf("opened again: %zu blocks in %.1f ms\n", stats.found_blocks, stats.open_ms);
    read_all(**opened, settings, "get, random, after a restart");
    return 0;
}

}  // namespace
}  // namespace taproot

int main(int argc, char** argv) {
    using namespace taproot;
    Settings settings;
    settings.store.max_bytes = 4_GiB;
    for (int i = 1; i < argc; ++i) {
        std::string_view name = argv[i];
        auto value = [&] { return std::strtoull(i + 1 < argc ? argv[++i] : "0", nullptr, 10); };
        if (name == "--direct")
            settings.store.direct_io = true;
        else if (name == "--blocks")
            settings.blocks = value();
        else if (name == "--page")
            settings.page_bytes = std::max<std::uint64_t>(value(), 64);
        else if (name == "--cap-mib")
            settings.store.max_bytes = value() * 1_MiB;
        else
            settings.store.path = name;
    }
    if (settings.store.path.empty())
        return std::fprintf(stderr, "usage: disk_store_bench PATH [--blocks N] ...\n"), 2;
    return run(settings);
}
