// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <filesystem>
#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <vector>

#include "base/clock.h"
#include "base/result.h"
#include "worker/kv/stored_block.h"

namespace rocksdb {
class Env;
}

namespace taproot {

struct DiskGenerationsOptions {
    std::filesystem::path database;
    std::uint64_t buffer_bytes = 0;  // never put more than this between two flushes
    bool direct_io = false;
    rocksdb::Env* env = nullptr;  // null: the system's
};

// RocksDB as a row of generations: blocks are added to the newest, and the oldest goes whole.
//
//      oldest                                 newest
//   [ generation 7 ] [ generation 8 ] ... [ generation 12 ] <── put (memory), start_flush (disk)
//      drop: its files are gone at once
//
// One column family each, named by number and identity. Two keys per block: "b" + hash holds the
// stored block (in a blob file, written once, at a flush), "i" + hash its header (in the table
// file), so that a scan reads no payload. No log, no compaction, no compression: what is put and
// not flushed is lost with the process, and nothing is written twice.
//
// Owner: one thread; one RocksDB thread writes flushes. Errors: kDataLoss where bytes are damaged,
// kIo where the system refuses. After an error of a write nothing more can be written: close it and
// open it again. Knows RocksDB, but neither caps nor what is worth keeping (DiskStore).
class DiskGenerations {
public:
    struct Generation {
        std::uint32_t number = 0;  // grows
        KvIdentity identity;
    };

    static Result<std::unique_ptr<DiskGenerations>> open(const DiskGenerationsOptions& options);
    ~DiskGenerations();  // what is not flushed is lost
    DiskGenerations(const DiskGenerations&) = delete;
    DiskGenerations& operator=(const DiskGenerations&) = delete;

    // Oldest first.
    [[nodiscard]] std::vector<Generation> generations() const;
    Result<void> add(const Generation& generation);
    Result<void> drop(std::uint32_t number);

    // `value` (an encoded block) in two parts. Into memory.
    Result<void> put(std::uint32_t number, BlockHash hash, std::span<const std::byte> header,
                     std::span<const std::byte> payload);
    // Calls `read` with the value when there is one; the bytes live as long as the call. They are
    // not checked here: a damaged file may give any bytes (decode_stored_block() sees it).
    Result<bool> get(std::uint32_t number, BlockHash hash,
                     const std::function<void(std::span<const std::byte>)>& read) const;
    // The headers of a generation, in no order of use.
    Result<void> scan(std::uint32_t number,
                      const std::function<void(std::span<const std::byte>)>& header) const;

    // Writes what was put into `number`, in the background; wait_flush() first.
    Result<void> start_flush(std::uint32_t number);
    // Until no flush runs: its error, or kDeadline.
    Result<void> wait_flush(Duration limit);
    // What went wrong in the background, if anything.
    [[nodiscard]] std::optional<Error> failure() const;

    // By RocksDB's statistics: bytes that flushes, compactions and logs wrote since it was opened.
    [[nodiscard]] std::uint64_t written_bytes() const;
    // Of its own: memtables, table readers, cache.
    [[nodiscard]] std::uint64_t memory_bytes() const;

private:
    struct Impl;
    explicit DiskGenerations(std::unique_ptr<Impl> impl);

    std::unique_ptr<Impl> impl_;
};

}  // namespace taproot
