// SPDX-License-Identifier: Apache-2.0
#include "worker/kv/disk_store.h"

#include <fmt/format.h>

#include <algorithm>
#include <utility>

#include "base/assert.h"
#include "base/log.h"

namespace taproot {
namespace {

constexpr std::uint64_t kGenerationsWanted = 32;  // a drop costs this part of what is kept
constexpr std::uint64_t kFlushBytesMax = 32_MiB;
constexpr std::uint64_t kBlocksMin = 16;            // a cap that holds fewer is a mistake
constexpr Duration kFlushPatience{60'000'000'000};  // a flush that takes longer is a failure
constexpr Duration kRetryFirst{1'000'000'000};
constexpr Duration kRetryLast{60'000'000'000};

// What RocksDB writes for `bytes` of values: records, tables, padding, each with a margin.
std::uint64_t bytes_on_disk(std::uint64_t bytes, std::uint64_t value_bytes) {
    return bytes + div_ceil(bytes, value_bytes) * 640 + 64_KiB;
}

Result<void> complete(DiskStoreOptions& options, std::uint64_t value_bytes) {
    const std::uint64_t least = DiskStore::kReserveBytes + kBlocksMin * (value_bytes + 8_KiB);
    if (options.max_bytes < least)
        return invalid_argument(
            fmt::format("max_bytes is {}; {} blocks of {} bytes need at least {}",
                        options.max_bytes, kBlocksMin, value_bytes, least),
            options.path.string());
    const std::uint64_t usable = options.max_bytes - DiskStore::kReserveBytes;
    if (options.generation_bytes == 0)
        options.generation_bytes = std::max(usable / kGenerationsWanted, value_bytes);
    if (options.flush_bytes == 0)
        options.flush_bytes = std::min(options.generation_bytes, kFlushBytesMax);
    if (options.generation_bytes > usable / 4 || options.flush_bytes > options.generation_bytes)
        return invalid_argument(
            fmt::format("generation_bytes {} must be at most a quarter of max_bytes, and "
                        "flush_bytes {} at most generation_bytes",
                        options.generation_bytes, options.flush_bytes),
            options.path.string());
    return {};
}

// Whether opening again could help: the user must act on the others.
bool is_of_the_disk(const Error& error) {
    return error.code == ErrorCode::kIo || error.code == ErrorCode::kDataLoss ||
           error.code == ErrorCode::kInternal || error.code == ErrorCode::kDeadline;
}

}  // namespace

DiskStore::DiskStore(DiskStoreOptions options, const KvIdentity& identity, std::uint64_t page_bytes,
                     DiskStoreWatch watch)
    : options_(std::move(options)),
      identity_(identity),
      page_bytes_(page_bytes),
      watch_(std::move(watch)),
      retry_after_(kRetryFirst) {}

DiskStore::~DiskStore() {
    leave_database();
}

Result<std::unique_ptr<DiskStore>> DiskStore::open(DiskStoreOptions options,
                                                   const KvIdentity& identity,
                                                   std::uint64_t page_bytes, DiskStoreWatch watch) {
    TAPROOT_ASSERT(page_bytes > 0);
    TAPROOT_CHECK_OK(complete(options, kStoredBlockHeaderBytes + page_bytes));
    std::unique_ptr<DiskStore> store(
        new DiskStore(std::move(options), identity, page_bytes, std::move(watch)));
    std::error_code ignored;
    const bool was_there = std::filesystem::exists(store->options_.path / "FORMAT", ignored);
    Result<void> opened = store->open_directory();
    // A place that never worked is a mistake in the configuration; one that did is a broken disk.
    if (!opened && !(was_there && is_of_the_disk(opened.error()))) return opened.error();
    if (opened) opened = store->open_database();
    if (!opened && !is_of_the_disk(opened.error())) return opened.error();
    if (!opened) store->go_off(opened.error());
    return store;
}

// --- opening

Result<void> DiskStore::open_directory() {
    TAPROOT_TRY(DiskDirectory directory, DiskDirectory::lock(options_.path));
    directory_.emplace(std::move(directory));
    return {};
}

Result<void> DiskStore::open_database() {
    const TimePoint begin = RealClock().now();
    DiskGenerationsOptions options;
    options.database = directory_->database();
    // Beyond flush_bytes: one block, and what a drop writes again.
    options.buffer_bytes = options_.flush_bytes * 2 + value_bytes() * 2;
    options.direct_io = options_.direct_io && directory_->direct_io_works();
    options.env = options_.env;
    auto opened = DiskGenerations::open(options);
    if (!opened && opened.error().code == ErrorCode::kDataLoss) {
        log_warn("disk store {}: its files are damaged ({}); all are removed, it starts empty",
                 options_.path.string(), opened.error().describe());
        ++stats_.wiped;
        TAPROOT_CHECK_OK(directory_->wipe());
        opened = DiskGenerations::open(options);
    }
    if (!opened) return opened.error();
    generations_db_ = std::move(*opened);
    stats_.direct_io = options.direct_io;
    TAPROOT_CHECK_OK(load_index());
    TAPROOT_CHECK_OK(fit_into_cap());
    stats_.found_blocks = index_.size();
    stats_.open_ms = to_ms(RealClock().now() - begin);
    return {};
}

Result<void> DiskStore::load_index() {
    // The newest first: of a block that was written twice, the newer place counts.
    auto found = generations_db_->generations();
    for (auto at = found.rbegin(); at != found.rend(); ++at) {
        auto loaded = load_generation(*at);
        if (!loaded && loaded.error().code == ErrorCode::kDataLoss) {
            log_warn("disk store {}: a generation is damaged and dropped: {}",
                     options_.path.string(), loaded.error().describe());
            for (BlockHash hash : generations_.front().blocks)
                if (index_[hash].generation == at->number) forget(hash);
            generations_.pop_front();
            ++stats_.dropped_generations;
            TAPROOT_CHECK_OK(generations_db_->drop(at->number));
        } else if (!loaded) {
            return loaded;
        }
    }
    newest_is_open_ = !generations_.empty() && generations_.back().ours &&
                      generations_.back().bytes < options_.generation_bytes;
    return {};
}

Result<void> DiskStore::load_generation(const DiskGenerations::Generation& generation) {
    Generation& out = generations_.emplace_front();
    out.number = generation.number;
    out.ours = generation.identity == identity_;
    if (!out.ours) return {};
    return generations_db_->scan(generation.number, [&](std::span<const std::byte> header) {
        StoredBlock block;
        std::uint64_t payload_bytes = 0;
        if (read_stored_block_header(header, block, payload_bytes) != StoredBlockFault::kNone)
            return;
        out.bytes += kStoredBlockHeaderBytes + payload_bytes;
        if (!index_.try_emplace(block.hash, Place{generation.number, 0}).second) return;
        out.blocks.push_back(block.hash);
        if (watch_.found) watch_.found(block);
    });
}

// The cap may be lower than last time.
Result<void> DiskStore::fit_into_cap() {
    while (!generations_.empty()) {
        TAPROOT_TRY(bool fit, fits(0));
        if (fit) return {};
        TAPROOT_CHECK_OK(drop_oldest());
    }
    return {};
}

// --- reading and writing

DiskPut DiskStore::put(const StoredBlock& block, std::span<const std::byte> payload) {
    TAPROOT_ASSERT(block.identity == identity_);
    TAPROOT_ASSERT(payload.size() == page_bytes_);
    if (!on()) return DiskPut::kOff;
    if (check_background()) return DiskPut::kFailed;
    if (contains(block.hash)) return DiskPut::kAlreadyStored;
    if (auto stored = put_block(block, payload); !stored) {
        index_.erase(block.hash);  // never announced
        go_off(stored.error());
        return DiskPut::kFailed;
    }
    stats_.put_bytes += payload.size();
    return DiskPut::kStored;
}

Result<void> DiskStore::put_block(const StoredBlock& block, std::span<const std::byte> payload) {
    std::array<std::byte, kStoredBlockHeaderBytes> header;
    write_stored_block_header(block, payload, header);
    TAPROOT_CHECK_OK(append(block.hash, header, payload));
    if (pending_bytes_ < options_.flush_bytes) return {};
    TAPROOT_CHECK_OK(make_room());
    return flush_pending();
}

Result<void> DiskStore::append(BlockHash hash, std::span<const std::byte> header,
                               std::span<const std::byte> payload) {
    if (!newest_is_open_) {
        std::uint32_t number = generations_.empty() ? 1 : generations_.back().number + 1;
        TAPROOT_CHECK_OK(generations_db_->add({number, identity_}));
        generations_.push_back({number, true});
        newest_is_open_ = true;
    }
    Generation& newest = generations_.back();
    TAPROOT_CHECK_OK(generations_db_->put(newest.number, hash, header, payload));
    index_[hash] = Place{newest.number, 0};
    newest.blocks.push_back(hash);
    newest.bytes += value_bytes();
    pending_bytes_ += value_bytes();
    return {};
}

DiskRead DiskStore::get(const StoredBlock& wanted, std::span<std::byte> payload) {
    TAPROOT_ASSERT(payload.size() == page_bytes_);
    DiskRead out;
    if (!on())
        out.outcome = DiskGet::kOff;
    else if (check_background())
        out.outcome = DiskGet::kFailed;
    else
        out = read(wanted, payload);
    switch (out.outcome) {
        case DiskGet::kHit:
            ++stats_.hits;
            break;
        case DiskGet::kAbsent:
            ++stats_.misses_absent;
            break;
        case DiskGet::kFault:
            ++stats_.misses_fault[static_cast<std::size_t>(out.fault)];
            break;
        case DiskGet::kOff:
            ++stats_.misses_off;
            break;
        case DiskGet::kFailed:
            ++stats_.misses_failed;
            break;
    }
    return out;
}

DiskRead DiskStore::read(const StoredBlock& wanted, std::span<std::byte> payload) {
    auto at = index_.find(wanted.hash);
    if (at == index_.end()) return {DiskGet::kAbsent};
    StoredBlockFault fault = StoredBlockFault::kNone;
    auto check = [&](std::span<const std::byte> value) {
        StoredBlock stored;
        std::span<const std::byte> bytes;
        fault = decode_stored_block(value, stored, bytes);
        if (fault == StoredBlockFault::kNone) fault = compare_stored_block(stored, wanted);
        if (fault == StoredBlockFault::kNone && bytes.size() != payload.size())
            fault = StoredBlockFault::kBadLength;
        if (fault == StoredBlockFault::kNone)
            std::copy(bytes.begin(), bytes.end(), payload.begin());
    };
    auto found = generations_db_->get(at->second.generation, wanted.hash, check);
    if (!found && found.error().code == ErrorCode::kDataLoss) {
        // RocksDB's own checks see it first in most cases.
        fault = StoredBlockFault::kBadChecksum;
    } else if (!found) {
        go_off(found.error());
        return {DiskGet::kFailed};
    } else if (!*found) {
        forget(wanted.hash);
        return {DiskGet::kAbsent};
    }
    // A damaged block makes room for a sound one; one that others asked for stays theirs.
    if (is_damage(fault)) forget(wanted.hash);
    if (fault != StoredBlockFault::kNone) return {DiskGet::kFault, fault};
    if (at->second.hits < UINT32_MAX) ++at->second.hits;
    return {DiskGet::kHit};
}

void DiskStore::forget(BlockHash hash) {
    if (index_.erase(hash) > 0 && watch_.removed) watch_.removed(hash);
}

Result<void> DiskStore::flush_pending() {
    if (pending_bytes_ == 0) return {};
    TAPROOT_CHECK_OK(generations_db_->start_flush(generations_.back().number));
    pending_bytes_ = 0;
    flush_started_ = true;
    newest_is_open_ = generations_.back().bytes < options_.generation_bytes;
    return {};
}

// --- room

// For what is pending, and for what a drop may write again before its space comes back.
std::uint64_t DiskStore::room_needed() const {
    auto hot =
        static_cast<std::uint64_t>(kHotShare * static_cast<double>(options_.generation_bytes));
    return bytes_on_disk(pending_bytes_ + hot, value_bytes());
}

Result<bool> DiskStore::fits(std::uint64_t bytes) const {
    TAPROOT_TRY(std::uint64_t used, directory_->used_bytes());
    return used + bytes + kReserveBytes <= options_.max_bytes;
}

Result<bool> DiskStore::leaves_enough_free(std::uint64_t bytes) const {
    TAPROOT_TRY(std::uint64_t free, directory_->free_bytes());
    return free >= options_.min_free_bytes + bytes;
}

// Until what is pending can be written. Measures files, so nothing may be writing them.
Result<void> DiskStore::make_room() {
    TAPROOT_CHECK_OK(generations_db_->wait_flush(kFlushPatience));
    if (flush_started_) retry_after_ = kRetryFirst;  // the disk works
    for (;;) {
        const std::uint64_t needed = room_needed();
        TAPROOT_TRY(bool fit, fits(needed));
        TAPROOT_TRY(bool enough_free, leaves_enough_free(needed));
        if (fit && enough_free) return {};
        no_room_ = generations_.size() < 2;
        if (no_room_)
            return Error{ErrorCode::kIo,
                         enough_free
                             ? "other files lie in its directory, no room is left for blocks"
                             : fmt::format("No space left on device: less than min_free_bytes "
                                           "({}) would stay free",
                                           options_.min_free_bytes)};
        // What the disk lacks is given back without writing more.
        if (enough_free) TAPROOT_CHECK_OK(rewrite_hot_blocks());
        TAPROOT_CHECK_OK(drop_oldest());
    }
}

// Those of the oldest generation that were read since they were written, the most read first.
Result<void> DiskStore::rewrite_hot_blocks() {
    const Generation& oldest = generations_.front();
    if (!oldest.ours) return {};
    const std::uint32_t number = oldest.number;
    std::vector<std::pair<std::uint32_t, BlockHash>> hot;
    for (BlockHash hash : oldest.blocks) {
        auto at = index_.find(hash);
        if (at != index_.end() && at->second.generation == number && at->second.hits > 0)
            hot.emplace_back(at->second.hits, hash);
    }
    std::sort(hot.begin(), hot.end(), std::greater<>());
    auto most = static_cast<std::size_t>(kHotShare * static_cast<double>(oldest.blocks.size()));
    if (hot.size() > most) hot.resize(most);
    for (auto [hits, hash] : hot) {
        if (pending_bytes_ >= options_.flush_bytes * 2) {
            // Room for this was kept free (room_needed), but a hard cap is measured.
            TAPROOT_TRY(bool fit, fits(bytes_on_disk(pending_bytes_, value_bytes())));
            if (!fit) return {};
            TAPROOT_CHECK_OK(flush_pending());
            TAPROOT_CHECK_OK(generations_db_->wait_flush(kFlushPatience));
        }
        std::vector<std::byte> value;
        auto found = generations_db_->get(number, hash, [&](std::span<const std::byte> bytes) {
            value.assign(bytes.begin(), bytes.end());
        });
        if (!found && found.error().code != ErrorCode::kDataLoss) return found.error();
        StoredBlock block;
        std::span<const std::byte> payload;
        if (!found || !*found ||
            decode_stored_block(value, block, payload) != StoredBlockFault::kNone ||
            payload.size() != page_bytes_ || block.hash != hash)
            continue;  // goes with its generation
        TAPROOT_CHECK_OK(append(hash, std::span(value).first(kStoredBlockHeaderBytes), payload));
        ++stats_.rewritten_blocks;
    }
    return {};
}

Result<void> DiskStore::drop_oldest() {
    Generation oldest = std::move(generations_.front());
    generations_.pop_front();
    if (generations_.empty()) newest_is_open_ = false;
    for (BlockHash hash : oldest.blocks) {
        auto at = index_.find(hash);
        if (at == index_.end() || at->second.generation != oldest.number) continue;
        forget(hash);
        ++stats_.dropped_blocks;
    }
    ++stats_.dropped_generations;
    return generations_db_->drop(oldest.number);
}

// It went off with nothing left to drop: that would happen again at the first flush.
Result<void> DiskStore::check_room() const {
    TAPROOT_TRY(bool enough, leaves_enough_free(bytes_on_disk(options_.flush_bytes + value_bytes(),
                                                              value_bytes())));
    if (enough) return {};
    return Error{ErrorCode::kIo, stats_.off_reason};
}

// --- ends and failures

Result<void> DiskStore::flush(Duration limit) {
    if (!on()) return Error{ErrorCode::kUnavailable, stats_.off_reason, options_.path.string()};
    Result<void> flushed = generations_db_->wait_flush(limit);
    if (flushed) flushed = make_room();
    if (flushed) flushed = flush_pending();
    if (flushed) flushed = generations_db_->wait_flush(limit);
    if (!flushed && flushed.error().code != ErrorCode::kDeadline) go_off(flushed.error());
    return flushed;
}

Result<void> DiskStore::close(Duration limit) {
    if (closed_) return {};
    Result<void> flushed;
    if (on()) flushed = flush(limit);
    closed_ = true;
    leave_database();
    index_.clear();
    stats_.off_reason = "closed";
    return flushed;
}

void DiskStore::leave_database() {
    if (generations_db_) written_before_ += generations_db_->written_bytes();
    generations_db_.reset();
    generations_.clear();
    newest_is_open_ = false;
    flush_started_ = false;
    pending_bytes_ = 0;
    directory_.reset();
}

void DiskStore::forget_all() {
    if (watch_.removed)
        for (const auto& [hash, place] : index_) watch_.removed(hash);
    index_.clear();
}

bool DiskStore::check_background() {
    auto failure = generations_db_->failure();
    if (failure) go_off(*failure);
    return failure.has_value();
}

void DiskStore::go_off(const Error& cause) {
    ++stats_.failures;
    stats_.off_reason = cause.describe();
    leave_database();
    forget_all();
    next_retry_.reset();
    log_warn(
        "disk store {}: off: {}. Requests go on without it: KV that leaves memory is computed "
        "again. Check the disk's space, mount and mode; it is tried again at least once a minute.",
        options_.path.string(), stats_.off_reason);
}

void DiskStore::retry(const Clock& clock) {
    if (on() || closed_) return;
    const TimePoint now = clock.now();
    if (!next_retry_) next_retry_ = now + retry_after_;
    if (now < *next_retry_) return;
    retry_after_ = std::min(retry_after_ * 2, kRetryLast);
    next_retry_ = now + retry_after_;
    Result<void> opened = open_directory();
    if (opened && no_room_) opened = check_room();
    if (opened) opened = open_database();
    if (!opened) {  // said once when it went off; a new reason is in the stats
        stats_.off_reason = opened.error().describe();
        leave_database();
        forget_all();
        return;
    }
    no_room_ = false;
    stats_.off_reason.clear();
    log_info("disk store {}: on again, {} blocks found in {:.0f} ms", options_.path.string(),
             index_.size(), stats_.open_ms);
}

DiskStoreStats DiskStore::stats() const {
    DiskStoreStats out = stats_;
    out.on = on();
    out.pending_bytes = pending_bytes_;
    out.blocks = index_.size();
    out.generations = generations_.size();
    out.written_bytes = written_before_;
    // A node of the map, its bucket, and the entry in its generation.
    out.memory_bytes = index_.size() * (32 + sizeof(BlockHash)) + index_.bucket_count() * 8;
    if (on()) {
        out.written_bytes += generations_db_->written_bytes();
        out.memory_bytes += generations_db_->memory_bytes();
        if (auto used = directory_->used_bytes()) out.used_bytes = *used;
    }
    return out;
}

}  // namespace taproot
