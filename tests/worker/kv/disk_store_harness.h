// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <sys/stat.h>

#include <algorithm>
#include <cstdlib>
#include <filesystem>
#include <memory>
#include <set>
#include <string>
#include <vector>

#include "base/random.h"
#include "radix_cache/block_hash.h"
#include "worker/kv/disk_store.h"

namespace taproot::testing {

namespace fs = std::filesystem;

inline constexpr std::uint64_t kPageBytes = 64_KiB;  // small, so that small caps hold many
inline constexpr KvIdentity kIdentity{0xA11CE, 0xB0B};
inline constexpr Duration kLong{30'000'000'000};

// RocksDB syncs every file: in memory these tests take seconds instead of minutes.
inline fs::path fast_place() {
    std::error_code ignored;
    return fs::is_directory("/dev/shm", ignored) ? fs::path("/dev/shm") : fs::temp_directory_path();
}

// A directory of its own, gone at the end.
class TempDirectory {
public:
    explicit TempDirectory(const fs::path& parent = fast_place()) {
        std::string pattern = parent / "taproot-kv-XXXXXX";
        if (::mkdtemp(pattern.data()) == nullptr) std::abort();
        path_ = pattern;
    }
    ~TempDirectory() {
        std::error_code ignored;
        fs::remove_all(path_, ignored);
    }
    TempDirectory(const TempDirectory&) = delete;
    TempDirectory& operator=(const TempDirectory&) = delete;
    [[nodiscard]] const fs::path& path() const { return path_; }

private:
    fs::path path_;
};

// Block `n` of a world in which number, tokens, hash and payload belong together.
inline StoredBlock test_block(std::uint64_t n, std::uint64_t salt = 0) {
    std::array<TokenId, kBlockTokens> tokens;
    for (std::size_t i = 0; i < tokens.size(); ++i)
        tokens[i] = static_cast<TokenId>(mix64(n * 31 + i) % 50'000);
    BlockHash parent = root_hash(salt);
    return make_stored_block(kIdentity, salt, parent, hash_block(parent, tokens), tokens);
}

inline void fill_payload(std::uint64_t n, std::span<std::byte> out) {
    for (std::size_t i = 0; i + 8 <= out.size(); i += 8) {
        std::uint64_t word = mix64(n * 1'000'003 + i);
        std::copy_n(reinterpret_cast<const std::byte*>(&word), 8, out.begin() + i);
    }
}

inline std::vector<std::byte> test_payload(std::uint64_t n, std::size_t bytes = kPageBytes) {
    std::vector<std::byte> out(bytes);
    fill_payload(n, out);
    return out;
}

// What lies under a directory, measured here by other means than the store's.
inline std::uint64_t bytes_under(const fs::path& path) {
    std::uint64_t bytes = 0;
    std::error_code error;
    for (fs::recursive_directory_iterator at(path, error), end; at != end; at.increment(error)) {
        struct stat info {};
        if (error) break;
        if (::lstat(at->path().c_str(), &info) != 0 || !S_ISREG(info.st_mode)) continue;
        bytes += std::max(static_cast<std::uint64_t>(info.st_size),
                          static_cast<std::uint64_t>(info.st_blocks) * 512);
    }
    return bytes;
}

inline std::vector<fs::path> files_of(const fs::path& path, const std::string& extension) {
    std::vector<fs::path> out;
    for (const auto& entry : fs::directory_iterator(path / "db"))
        if (entry.path().extension() == extension) out.push_back(entry.path());
    std::sort(out.begin(), out.end());
    return out;
}

// A mirror of what the store says it holds, kept by what it announces.
class Mirror {
public:
    DiskStoreWatch watch() {
        return {.found = [this](const StoredBlock& block) { add(block.hash); },
                .removed =
                    [this](BlockHash hash) {
                        if (held_.erase(hash) != 1) std::abort();
                    }};
    }
    void add(BlockHash hash) {
        if (!held_.insert(hash).second) std::abort();
    }
    void clear() { held_.clear(); }  // the store is gone
    [[nodiscard]] bool holds(BlockHash hash) const { return held_.count(hash) > 0; }
    [[nodiscard]] std::size_t size() const { return held_.size(); }

private:
    std::set<BlockHash> held_;
};

inline DiskPut put(DiskStore& store, std::uint64_t n) {
    return store.put(test_block(n), test_payload(n));
}

// What get() says about block n; a hit must have block n's payload.
inline DiskRead get(DiskStore& store, std::uint64_t n) {
    std::vector<std::byte> payload(kPageBytes, std::byte{0xEE});
    DiskRead out = store.get(test_block(n), payload);
    if (out.outcome == DiskGet::kHit && payload != test_payload(n)) std::abort();
    return out;
}

}  // namespace taproot::testing
