// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <deque>
#include <filesystem>
#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <unordered_map>
#include <vector>

#include "base/clock.h"
#include "base/result.h"
#include "base/units.h"
#include "worker/kv/disk_directory.h"
#include "worker/kv/disk_generations.h"
#include "worker/kv/stored_block.h"

namespace taproot {

struct DiskStoreOptions {
    std::filesystem::path path;        // made if missing; its parent must exist
    std::uint64_t max_bytes = 0;       // of all files under `path`, always
    std::uint64_t min_free_bytes = 0;  // left to others on that file system
    bool direct_io = false;            // past the page cache, where the file system can
    // 0: derived from max_bytes (1/32 of it, and at most 32 MiB).
    std::uint64_t generation_bytes = 0;  // what is dropped at once
    std::uint64_t flush_bytes = 0;       // what is held in memory until it is written
    rocksdb::Env* env = nullptr;         // for tests that let the disk fail
};

// Told about every block that comes and goes, so that a mirror of contains() can be kept: `found`
// when the store is opened, also by retry() (parents may come after children), `removed` when it is
// dropped, damaged, or lost because the store went off. A put() that says kStored is not announced.
// Called by the owner, from inside a call; must not call the store.
struct DiskStoreWatch {
    std::function<void(const StoredBlock&)> found;
    std::function<void(BlockHash)> removed;
};

enum class DiskPut : std::uint8_t {
    kStored,
    kAlreadyStored,
    kOff,     // nothing was tried
    kFailed,  // once: the store has just gone off
};

enum class DiskGet : std::uint8_t {
    kHit,
    kAbsent,
    kFault,   // stored, but not what was asked for: `fault` says why
    kOff,     // nothing was tried
    kFailed,  // once: the store has just gone off
};

struct DiskRead {
    DiskGet outcome = DiskGet::kAbsent;
    StoredBlockFault fault = StoredBlockFault::kNone;
};

struct DiskStoreStats {
    bool on = false;
    std::string off_reason;           // empty while on
    bool direct_io = false;           // asked for and possible
    std::uint64_t used_bytes = 0;     // of all files now
    std::uint64_t pending_bytes = 0;  // accepted, in memory, not yet written
    std::uint64_t memory_bytes = 0;   // of RocksDB and the index
    std::size_t blocks = 0;
    std::size_t generations = 0;
    std::size_t found_blocks = 0;  // by the last open,
    double open_ms = 0;            // which took this long

    // Since the store was made.
    std::uint64_t put_bytes = 0;      // payload that callers put and we took
    std::uint64_t written_bytes = 0;  // by RocksDB's statistics
    std::uint64_t hits = 0;
    std::uint64_t misses_absent = 0;
    std::uint64_t misses_off = 0;
    std::uint64_t misses_failed = 0;
    std::array<std::uint64_t, kStoredBlockFaults> misses_fault{};
    std::uint64_t dropped_generations = 0;
    std::uint64_t dropped_blocks = 0;
    std::uint64_t rewritten_blocks = 0;  // hot ones of dropped generations
    std::uint64_t wiped = 0;             // times that RocksDB's files were beyond use
    std::uint64_t failures = 0;          // times that the store went off

    // Bytes on disk per byte put; compare after a flush.
    [[nodiscard]] double write_amplification() const {
        return put_bytes == 0 ? 0
                              : static_cast<double>(written_bytes) / static_cast<double>(put_bytes);
    }
};

// KV blocks on disk: what left memory and may be wanted again, also by the next process.
//
//    put ──> memory (flush_bytes) ──> newest generation          oldest generation ──> dropped
//                   ^                                                   │
//                   └───────── blocks hit since they were written <─────┘
//
// - Never a wrong block: each read is checked against everything that decides its bits
//   (stored_block.h); what does not match is a miss.
// - Never above the cap: before anything is written, room for it is made by dropping the oldest
//   generation whole; files are measured, not estimated. Its most used blocks are written again
//   first, at most kHotShare of it, so that little is ever written twice.
// - Never in the way: when the disk is full, fails, is read-only or gone, the store says so once,
//   in one log line, and is off: all calls are cheap misses. retry() brings it back.
//
//            open()         write or read fails, no room
//      ──────────────> on ──────────────────────────────> off
//                       ^                                  │
//                       └───────── retry() works ──────────┘
//
// Owner: one thread, which may wait for the disk (not the engine's). Every put() that fills
// flush_bytes waits for the flush before, nothing else waits for writes. Memory: two times
// flush_bytes, 8 MiB of cache, about 56 bytes for each block on disk, RocksDB's table readers.
// What was put and not yet flushed is lost with the process: it is a cache.
class DiskStore {
public:
    static constexpr double kHotShare = 0.2;
    static constexpr std::uint64_t kReserveBytes = 1_MiB;  // manifests, options: not data

    // `page_bytes`: of every payload. kInvalidArgument: an option out of range, or the directory
    // holds something else; kUnavailable: in use by another worker; kIo: no such place. When the
    // place is right but the disk fails, the store comes back off.
    static Result<std::unique_ptr<DiskStore>> open(DiskStoreOptions options,
                                                   const KvIdentity& identity,
                                                   std::uint64_t page_bytes,
                                                   DiskStoreWatch watch = {});
    ~DiskStore();  // without a flush; see close()
    DiskStore(const DiskStore&) = delete;
    DiskStore& operator=(const DiskStore&) = delete;

    // Takes a copy. `block.identity` must be the store's.
    DiskPut put(const StoredBlock& block, std::span<const std::byte> payload);
    // Reads the block called wanted.hash into `payload` if it is exactly `wanted`; else `payload`
    // keeps what it held. A hit makes the block worth keeping.
    DiskRead get(const StoredBlock& wanted, std::span<std::byte> payload);
    [[nodiscard]] bool contains(BlockHash hash) const { return index_.count(hash) > 0; }

    // Writes everything that was put. kDeadline: still writing (it goes on); kUnavailable: off.
    Result<void> flush(Duration limit);
    // Flush, then let go of the directory. Off afterwards, for good.
    Result<void> close(Duration limit);
    // While off: tries again, at most once a second at first and once a minute later. Call it every
    // now and then; cheap otherwise.
    void retry(const Clock& clock);

    [[nodiscard]] bool on() const { return generations_db_ != nullptr; }
    [[nodiscard]] DiskStoreStats stats() const;  // measures the files: O(files)

private:
    struct Generation {
        std::uint32_t number = 0;
        bool ours = false;                // of our identity
        std::uint64_t bytes = 0;          // of values put
        std::vector<BlockHash> blocks{};  // put here; some may live elsewhere by now
    };
    struct Place {
        std::uint32_t generation = 0;
        std::uint32_t hits = 0;  // since it was written
    };

    DiskStore(DiskStoreOptions options, const KvIdentity& identity, std::uint64_t page_bytes,
              DiskStoreWatch watch);

    Result<void> open_directory();
    Result<void> open_database();
    Result<void> load_index();
    Result<void> load_generation(const DiskGenerations::Generation& generation);
    Result<void> fit_into_cap();

    Result<void> append(BlockHash hash, std::span<const std::byte> header,
                        std::span<const std::byte> payload);
    Result<void> put_block(const StoredBlock& block, std::span<const std::byte> payload);
    Result<void> flush_pending();
    Result<void> make_room();
    Result<bool> fits(std::uint64_t bytes) const;
    Result<bool> leaves_enough_free(std::uint64_t bytes) const;
    Result<void> check_room() const;
    Result<void> rewrite_hot_blocks();
    Result<void> drop_oldest();
    [[nodiscard]] std::uint64_t room_needed() const;
    [[nodiscard]] std::uint64_t value_bytes() const {
        return kStoredBlockHeaderBytes + page_bytes_;
    }

    DiskRead read(const StoredBlock& wanted, std::span<std::byte> payload);
    void forget(BlockHash hash);
    void forget_all();
    void go_off(const Error& cause);
    void leave_database();
    // Goes off when something failed in the background.
    bool check_background();

    DiskStoreOptions options_;
    const KvIdentity identity_;
    const std::uint64_t page_bytes_;
    DiskStoreWatch watch_;

    std::optional<DiskDirectory> directory_;
    std::unique_ptr<DiskGenerations> generations_db_;  // null while off
    std::deque<Generation> generations_;               // oldest first
    std::unordered_map<BlockHash, Place> index_;
    bool newest_is_open_ = false;       // generations_.back() takes more blocks
    bool flush_started_ = false;        // since it was opened
    bool no_room_ = false;              // why it went off
    std::uint64_t pending_bytes_ = 0;   // put into the newest since its last flush
    std::uint64_t written_before_ = 0;  // by databases that were closed since
    std::optional<TimePoint> next_retry_;
    Duration retry_after_{};
    bool closed_ = false;
    DiskStoreStats stats_;  // counters; the rest is filled in by stats()
};

}  // namespace taproot
