// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <span>
#include <string>
#include <utility>

#include "base/result.h"
#include "kernels/fork_join.h"
#include "worker/model/huge_mapping.h"
#include "worker/model/weight_image.h"

namespace taproot {

// Where repacked weights may be found and left. Nothing set: private memory.
struct WeightStoreOptions {
    int shared_fd = -1;                // memory (memfd_create) that the workers of one host share
    std::filesystem::path cache = {};  // file of repacked weights; not used with shared memory
    std::uint32_t cache_mode = 0600;   // permissions of a new one
};

// The memory in which the weight matrices of a model lie, 2 MiB aligned:
//
//   open() ──> ready: data() holds these weights already     ──> (reject) ──> private and empty
//          └─> empty: fill writable(), then finish()
//
// private   anonymous memory.
// shared    The first worker locks the memory, fills it, seals it against any further write and
//           unlocks; the others wait in open() and map it read-only. The kernel drops the lock of a
//           worker that dies, and a header is written last, so the next one starts over. Sealed
//           weights of another model, version or layout stay as they are: private memory then.
// cache     A finished file is mapped read-only. One that is missing, damaged, of another version
//           or other weights costs a log line; finish() writes it anew (temporary file, fsync,
//           rename) and maps that. A folder that cannot be written costs a log line.
//           What is checked: header, identity, size in open(); every byte of the payload by
//           matches_digest().
// Owner: one thread. Move-only.
class WeightStore {
public:
    explicit WeightStore(WeightStoreOptions options = {}) : options_(std::move(options)) {}
    ~WeightStore();
    WeightStore(WeightStore&& other) noexcept { swap(other); }
    WeightStore& operator=(WeightStore&& other) noexcept {
        swap(other);
        return *this;
    }

    // May wait for another worker that fills the shared memory. Errors: kUnavailable (no memory),
    // kInvalidArgument (shared_fd is not shared memory).
    Result<void> open(const WeightIdentity& identity);
    [[nodiscard]] bool opened() const { return mapping_.data() != nullptr; }
    [[nodiscard]] bool ready() const { return ready_; }
    // Whether the bytes are there already and counted once for all workers of this host.
    [[nodiscard]] bool costs_no_memory() const { return ready_ && kind_ == Kind::kShared; }
    [[nodiscard]] const WeightIdentity& identity() const { return identity_; }

    [[nodiscard]] const std::byte* data() const;  // [identity().payload_bytes]
    // The same, zeroed; not when ready(). Memory is taken here or when it is written, not earlier.
    [[nodiscard]] std::byte* writable();

    // When ready(): whether the payload is what was written. Reads all of it. True for shared
    // memory, which only a sibling can have written.
    [[nodiscard]] bool matches_digest(ForkJoin& pool) const;
    // What is there is not what was asked for, for this `reason` (logged): private memory instead.
    Result<void> reject(const std::string& reason);
    // All matrices are written. Keeps the address of data(). Failures are logged, not returned: the
    // weights are there.
    void finish(ForkJoin& pool);

    // "private memory", "memory shared with other workers", "FILE", each with its share of 2 MiB
    // pages.
    [[nodiscard]] std::string describe() const;

private:
    enum class Kind : std::uint8_t { kPrivate, kShared, kCache };

    Result<void> open_private();
    Result<bool> open_shared();  // false: full of something else
    Result<void> create_shared();
    Result<void> lock_shared();
    [[nodiscard]] Result<HugeMapping> map_shared(std::size_t bytes) const;
    bool open_cache();
    void finish_shared();
    void finish_cache(ForkJoin& pool);
    void swap(WeightStore& other) noexcept;
    void close();

    WeightStoreOptions options_;
    WeightIdentity identity_;
    HugeMapping mapping_;
    Kind kind_ = Kind::kPrivate;
    bool ready_ = false;
    bool rewrite_cache_ = false;
    std::uint64_t payload_digest_ = 0;
    int lock_ = -1;  // shared memory opened for reading and writing, and locked
};

// XXH3-64 over the digests of pieces of 8 MiB, which the threads of `pool` share.
std::uint64_t payload_digest(std::span<const std::byte> payload, ForkJoin& pool);

}  // namespace taproot
