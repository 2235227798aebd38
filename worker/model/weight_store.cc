// SPDX-License-Identifier: Apache-2.0
#include "worker/model/weight_store.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/file.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>
#include <xxhash.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstring>
#include <utility>
#include <vector>

#include "base/assert.h"
#include "base/log.h"
#include "base/units.h"
#include "kernels/work_ranges.h"
#include "worker/model/weight_file.h"

namespace taproot {
namespace {

constexpr std::size_t kHeader = WeightImageHeader::kBytes;

// Opening it gives the same memory behind a descriptor of our own.
std::string reopened(int fd) {
    return fmt::format("/proc/self/fd/{}", fd);
}

}  // namespace

std::uint64_t payload_digest(std::span<const std::byte> payload, ForkJoin& pool) {
    constexpr std::size_t kPiece = 8_MiB;
    std::vector<std::uint64_t> digests(div_ceil(payload.size(), kPiece));
    WorkRanges ranges(static_cast<int>(digests.size()), pool.threads(), 1);
    pool.share([&](int thread) {
        ranges.work(thread, [&](int piece) {
            std::size_t begin = static_cast<std::size_t>(piece) * kPiece;
            std::size_t bytes = std::min(kPiece, payload.size() - begin);
            digests[static_cast<std::size_t>(piece)] = XXH3_64bits(payload.data() + begin, bytes);
        });
    });
    return XXH3_64bits(digests.data(), digests.size() * sizeof digests[0]);
}

WeightStore::~WeightStore() {
    close();
}

void WeightStore::close() {
    if (lock_ >= 0) ::close(lock_);  // and the lock with it
    lock_ = -1;
}

void WeightStore::swap(WeightStore& other) noexcept {
    std::swap(options_, other.options_);
    std::swap(identity_, other.identity_);
    std::swap(mapping_, other.mapping_);
    std::swap(kind_, other.kind_);
    std::swap(ready_, other.ready_);
    std::swap(rewrite_cache_, other.rewrite_cache_);
    std::swap(payload_digest_, other.payload_digest_);
    std::swap(lock_, other.lock_);
}

const std::byte* WeightStore::data() const {
    TAPROOT_ASSERT(opened());
    return mapping_.data() + kHeader;
}

std::byte* WeightStore::writable() {
    TAPROOT_ASSERT(opened() && !ready_);
    if (kind_ == Kind::kShared) mapping_.collapse(true);
    return mapping_.data() + kHeader;
}

Result<void> WeightStore::open(const WeightIdentity& identity) {
    TAPROOT_ASSERT(!opened() && identity.payload_bytes > 0);
    identity_ = identity;
    if (options_.shared_fd >= 0) {
        TAPROOT_TRY(bool usable, open_shared());
        if (usable) return {};
    } else if (!options_.cache.empty()) {
        if (open_cache()) return {};
        rewrite_cache_ = true;
    }
    return open_private();
}

Result<void> WeightStore::open_private() {
    kind_ = Kind::kPrivate;
    ready_ = false;
    // Room for a header: finish_cache() puts the file at the same address.
    TAPROOT_TRY(mapping_, HugeMapping::anonymous(kHeader + identity_.payload_bytes));
    return {};
}

Result<void> WeightStore::lock_shared() {
    // Opened anew: a lock belongs to the open file, and the inherited one is everybody's.
    lock_ = ::open(reopened(options_.shared_fd).c_str(), O_RDWR | O_CLOEXEC);
    if (lock_ < 0)
        return invalid_argument(fmt::format("cannot open file descriptor {}: {}",
                                            options_.shared_fd, std::strerror(errno)),
                                "shared weights");
    if (::flock(lock_, LOCK_EX | LOCK_NB) == 0) return {};
    log_info("waiting for the worker that repacks the weights");
    while (::flock(lock_, LOCK_EX) != 0)
        if (errno != EINTR)
            return Error{ErrorCode::kIo, fmt::format("cannot lock: {}", std::strerror(errno)),
                         "shared weights"};
    return {};
}

Result<bool> WeightStore::open_shared() {
    int seals = ::fcntl(options_.shared_fd, F_GET_SEALS);
    if (seals < 0)
        return invalid_argument(
            fmt::format("file descriptor {} is not shared memory", options_.shared_fd),
            "shared weights");
    TAPROOT_CHECK_OK(lock_shared());
    struct stat info = {};
    TAPROOT_ASSERT(::fstat(lock_, &info) == 0);
    std::array<std::byte, kHeader> start;
    bool read = ::pread(lock_, start.data(), start.size(), 0) == static_cast<ssize_t>(start.size());
    auto header = parse_weight_image_header(std::span(start).first(read ? start.size() : 0),
                                            static_cast<std::uint64_t>(info.st_size));
    // Read again: whoever held the lock has sealed it meanwhile.
    bool sealed = (::fcntl(lock_, F_GET_SEALS) & F_SEAL_WRITE) != 0;
    if (header && sealed && header->identity == identity_) {
        TAPROOT_TRY(mapping_, map_shared(static_cast<std::size_t>(info.st_size)));
        close();
        kind_ = Kind::kShared;
        ready_ = true;
        return true;
    }
    if (sealed) {
        close();
        log_warn(
            "the weights that the other workers share are not the ones of this model file and "
            "program: keeping a copy of our own until all workers start anew");
        return false;
    }
    TAPROOT_CHECK_OK(create_shared());
    return true;
}

Result<HugeMapping> WeightStore::map_shared(std::size_t bytes) const {
    int reader = ::open(reopened(lock_).c_str(), O_RDONLY | O_CLOEXEC);
    if (reader < 0)
        return Error{ErrorCode::kIo, fmt::format("cannot open: {}", std::strerror(errno)),
                     "shared weights"};
    auto mapping = HugeMapping::of_file(reader, bytes, HugeMapping::Access::kRead);
    ::close(reader);
    if (mapping) mapping->collapse(false);
    return mapping;
}

Result<void> WeightStore::create_shared() {
    auto bytes = round_up<std::size_t>(kHeader + identity_.payload_bytes, 2_MiB);
    // Empty first: another worker may have died in the middle.
    if (::ftruncate(lock_, 0) != 0 || ::ftruncate(lock_, static_cast<off_t>(bytes)) != 0)
        return Error{ErrorCode::kUnavailable,
                     fmt::format("cannot grow to {} bytes: {}", bytes, std::strerror(errno)),
                     "shared weights"};
    TAPROOT_TRY(mapping_, HugeMapping::of_file(lock_, bytes, HugeMapping::Access::kReadWrite));
    kind_ = Kind::kShared;
    ready_ = false;
    return {};
}

bool WeightStore::open_cache() {
    auto found = open_weight_file(options_.cache, identity_);
    if (!found) {
        log_info("repacked weights are made anew: {}", found.error().describe());
        return false;
    }
    mapping_ = std::move(found->mapping);
    payload_digest_ = found->payload_digest;
    kind_ = Kind::kCache;
    ready_ = true;
    return true;
}

bool WeightStore::matches_digest(ForkJoin& pool) const {
    TAPROOT_ASSERT(ready_);
    if (kind_ == Kind::kShared) return true;
    return payload_digest({data(), identity_.payload_bytes}, pool) == payload_digest_;
}

Result<void> WeightStore::reject(const std::string& reason) {
    TAPROOT_ASSERT(ready_);
    if (kind_ == Kind::kCache) {
        log_warn("{}: {}; it is written anew", options_.cache.string(), reason);
        rewrite_cache_ = true;
    } else {
        log_warn("shared weights: {}; keeping a copy of our own", reason);
    }
    mapping_ = HugeMapping();
    return open_private();
}

void WeightStore::finish(ForkJoin& pool) {
    TAPROOT_ASSERT(opened() && !ready_);
    if (kind_ == Kind::kShared) finish_shared();
    if (rewrite_cache_) finish_cache(pool);
}

void WeightStore::finish_shared() {
    write_weight_image_header({identity_, 0}, {mapping_.data(), kHeader});
    // Read-only from here on, through a descriptor that never could write: else sealing fails.
    auto readable = map_shared(mapping_.bytes());
    if (readable)
        mapping_.replace_by(std::move(*readable)).ignore("then sealing fails and says so");
    if (::fcntl(lock_, F_ADD_SEALS, F_SEAL_SHRINK | F_SEAL_GROW | F_SEAL_WRITE | F_SEAL_SEAL) != 0)
        log_warn("cannot seal the shared weights, so other workers will not use them: {}",
                 std::strerror(errno));
    close();
}

void WeightStore::finish_cache(ForkJoin& pool) {
    rewrite_cache_ = false;
    std::span<const std::byte> payload{data(), identity_.payload_bytes};
    WeightImageHeader header{identity_, payload_digest(payload, pool)};
    auto written = write_weight_file(options_.cache, options_.cache_mode, header, payload);
    if (!written) {
        log_warn("cannot keep the repacked weights, so every start makes them anew: {}",
                 written.error().describe());
        return;
    }
    log_info("repacked weights are kept in {} ({:.0f} MiB)", options_.cache.string(),
             static_cast<double>(identity_.payload_bytes) / static_cast<double>(1_MiB));
    // The same memory for all who map it, and the same speed as after a restart.
    auto found = open_weight_file(options_.cache, identity_);
    if (!found) return;  // replaced or removed already
    if (mapping_.replace_by(std::move(found->mapping))) kind_ = Kind::kCache;
}

std::string WeightStore::describe() const {
    std::string place = kind_ == Kind::kShared  ? "memory that workers share"
                        : kind_ == Kind::kCache ? options_.cache.string()
                                                : "private memory";
    return fmt::format("{}, {:.0f} % of it on 2 MiB pages", place,
                       100.0 * static_cast<double>(mapping_.huge_bytes()) /
                           static_cast<double>(std::max<std::size_t>(mapping_.bytes(), 1)));
}

}  // namespace taproot
