// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <filesystem>

#include "base/result.h"

namespace taproot {

// The directory of a disk store, taken for this process:
//
//   PATH/        mode 0700
//   PATH/FORMAT  "taproot kv 1": what lies here, and the lock (flock) that keeps others out
//   PATH/db/     RocksDB's files, and nothing else: may be removed whole at any time
//
// Owner: one thread. Errors name the directory and say what to do.
class DiskDirectory {
public:
    // Makes the directory (its parent must exist) and locks it. kUnavailable: another process, or
    // another store of this one, holds it. kInvalidArgument: it holds something that is not ours.
    // kIo: the system refuses. A directory of another format is emptied.
    static Result<DiskDirectory> lock(const std::filesystem::path& path);

    DiskDirectory(DiskDirectory&& other) noexcept;
    DiskDirectory& operator=(DiskDirectory&& other) noexcept;
    ~DiskDirectory();  // unlocks

    [[nodiscard]] std::filesystem::path database() const { return path_ / "db"; }
    // Bytes of every file here: the larger of length and blocks in use. O(files).
    [[nodiscard]] Result<std::uint64_t> used_bytes() const;
    // What the file system would still give us.
    [[nodiscard]] Result<std::uint64_t> free_bytes() const;
    // Whether files here can be opened with O_DIRECT (tmpfs may refuse).
    [[nodiscard]] bool direct_io_works() const;
    // Removes the database.
    Result<void> wipe() const;

private:
    DiskDirectory(std::filesystem::path path, int lock_fd);

    std::filesystem::path path_;
    int lock_fd_ = -1;
};

}  // namespace taproot
