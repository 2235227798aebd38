// SPDX-License-Identifier: Apache-2.0
#include "kernels/roofs.h"

#include <algorithm>
#include <atomic>
#include <chrono>
#include <cstring>
#include <string>

#include "kernels/aligned_buffer.h"
#include "kernels/cpu_features.h"
#include "kernels/fork_join.h"
#include "kernels/roof_ops.h"
#include "kernels/work_ranges.h"

namespace taproot {
namespace {

using Clock = std::chrono::steady_clock;

double seconds_since(Clock::time_point begin) {
    return std::chrono::duration<double>(Clock::now() - begin).count();
}

const RoofOps& roof_ops_for(Isa isa) {
#if defined(__x86_64__)
    if (isa == Isa::kAvx512) return avx512::roof_ops();
    if (isa == Isa::kAvx2) return avx2::roof_ops();
#endif
    TAPROOT_ASSERT(isa == Isa::kRef);
    return ref::roof_ops();
}

// Results go here so that no loop can be dropped.
std::atomic<float> sink;

// Largest amount/second over repeated calls of `once` (which returns its amount) within `budget_s`.
template <typename Once>
double best_rate(double budget_s, const Once& once) {
    double best = 0;
    const auto start = Clock::now();
    do {
        const auto begin = Clock::now();
        const double amount = once();
        best = std::max(best, amount / seconds_since(begin));
    } while (seconds_since(start) < budget_s);
    return best;
}

// Rounds that take about a millisecond, so that a window fits between disturbances.
double compute_rate(ForkJoin& pool, double budget_s, float (*loop)(std::int64_t),
                    std::int64_t ops_per_round) {
    std::int64_t rounds = 1000;
    for (;;) {
        const auto begin = Clock::now();
        sink = loop(rounds);
        if (seconds_since(begin) > 1e-3) break;
        rounds *= 2;
    }
    return best_rate(budget_s, [&] {
        WorkRanges loops(pool.threads(), pool.threads(), 1);
        pool.share([&](int thread) { loops.work(thread, [&](int) { sink = loop(rounds); }); });
        return static_cast<double>(rounds * ops_per_round) * pool.threads();
    });
}

// Threads claim some MiB at a time: a fixed part each would make all wait for a disturbed one.
double read_rate(int threads, double budget_s, const RoofOps& ops, const AlignedBuffer& buffer) {
    constexpr std::size_t kPiece = 32 * 1024;
    constexpr int kPiecesPerClaim = 2048;
    ForkJoin pool(threads);
    const int pieces = static_cast<int>(buffer.bytes() / kPiece);
    auto rate = [&](float (*read)(const std::byte*, std::size_t)) {
        return best_rate(budget_s / 2, [&] {
            WorkRanges ranges(pieces, threads, kPiecesPerClaim);
            pool.share([&](int thread) {
                ranges.work_parts(thread, [&](int begin, int end) {
                    sink = read(buffer.data() + static_cast<std::size_t>(begin) * kPiece,
                                static_cast<std::size_t>(end - begin) * kPiece);
                });
            });
            return static_cast<double>(pieces) * kPiece;
        });
    };
    return std::max(rate(ops.read), rate(ops.read_streams));
}

double memcpy_rate(ForkJoin& pool, double budget_s, AlignedBuffer& buffer) {
    constexpr std::size_t kPiece = 64 * 1024;
    constexpr int kPiecesPerClaim = 64;
    const int pieces = static_cast<int>(buffer.bytes() / 2 / kPiece);
    std::byte* half = buffer.data() + static_cast<std::size_t>(pieces) * kPiece;
    return best_rate(budget_s, [&] {
        WorkRanges ranges(pieces, pool.threads(), kPiecesPerClaim);
        pool.share([&](int thread) {
            ranges.work_parts(thread, [&](int begin, int end) {
                const std::size_t at = static_cast<std::size_t>(begin) * kPiece;
                std::memcpy(half + at, buffer.data() + at,
                            static_cast<std::size_t>(end - begin) * kPiece);
            });
        });
        return static_cast<double>(pieces) * kPiece;
    });
}

// An empty region in which every thread takes part.
void run_together(ForkJoin& pool) {
    std::atomic<int> missing{pool.threads()};
    pool.share([&](int thread) {
        missing.fetch_sub(1, std::memory_order_relaxed);
        while (thread == 0 && missing.load(std::memory_order_relaxed) > 0) {
        }
    });
}

Result<void> check(const RoofOptions& options) {
    const auto isas = available_isas();
    if (std::find(isas.begin(), isas.end(), options.isa) == isas.end()) {
        return invalid_argument("this CPU cannot run " + std::string(to_string(options.isa)),
                                "isa");
    }
    if (options.threads < 1 || options.threads > 1024) {
        return invalid_argument("must be 1..1024, is " + std::to_string(options.threads),
                                "threads");
    }
    if (!(options.seconds >= 0.1 && options.seconds <= 600.0)) {
        return invalid_argument("must be 0.1..600", "seconds");
    }
    if (options.read_bytes < (1u << 20) || options.read_bytes > (std::size_t{1} << 40)) {
        return invalid_argument("must be 1 MiB..1 TiB", "read_bytes");
    }
    return {};
}

}  // namespace

Result<Roofs> measure_roofs(const RoofOptions& options) {
    TAPROOT_CHECK_OK(check(options));
    const RoofOps& ops = roof_ops_for(options.isa);
    AlignedBuffer buffer(options.read_bytes);
    if (buffer.data() == nullptr) {
        return Error{ErrorCode::kUnavailable,
                     "no memory for " + std::to_string(options.read_bytes) + " bytes",
                     "read_bytes"};
    }
    // Untouched pages all map to one zero page, which reads from the cache.
    std::fill(buffer.data(), buffer.data() + buffer.bytes(), std::byte{1});

    Roofs roofs{};
    const double part_s = options.seconds / (5.0 + options.threads);
    ForkJoin pool(options.threads);
    roofs.int8_ops_per_s = compute_rate(pool, part_s, ops.int8, ops.int8_ops);
    roofs.fp32_flop_per_s = compute_rate(pool, part_s, ops.fp32, ops.fp32_ops);
    if (ops.bf16 != nullptr && cpu_features().avx512_bf16) {
        roofs.bf16_flop_per_s = compute_rate(pool, part_s, ops.bf16, ops.bf16_ops);
    }
    constexpr int kRegions = 1000;
    const double regions_per_s = best_rate(part_s, [&] {
        for (int i = 0; i < kRegions; ++i) run_together(pool);
        return static_cast<double>(kRegions);
    });
    roofs.fork_join_ns = 1e9 / regions_per_s;
    roofs.memcpy_bytes_per_s = memcpy_rate(pool, part_s, buffer);
    for (int threads = 1; threads <= options.threads; ++threads) {
        roofs.read_bytes_per_s.push_back(read_rate(threads, part_s, ops, buffer));
    }
    return roofs;
}

}  // namespace taproot
