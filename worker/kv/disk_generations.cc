// SPDX-License-Identifier: Apache-2.0
#include "worker/kv/disk_generations.h"

#include <fmt/format.h>
#include <rocksdb/cache.h>
#include <rocksdb/db.h>
#include <rocksdb/env.h>
#include <rocksdb/filter_policy.h>
#include <rocksdb/listener.h>
#include <rocksdb/statistics.h>
#include <rocksdb/table.h>
#include <rocksdb/write_batch.h>

#include <algorithm>
#include <array>
#include <charconv>
#include <condition_variable>
#include <cstdarg>
#include <cstdio>
#include <cstring>
#include <map>
#include <mutex>
#include <string>
#include <string_view>
#include <utility>

#include "base/assert.h"
#include "base/log.h"
#include "base/units.h"

namespace taproot {
namespace {

using Generation = DiskGenerations::Generation;

constexpr std::uint64_t kCacheBytes = 8_MiB;       // of index and table blocks: few, small, hot
constexpr std::uint64_t kManifestBytes = 256_KiB;  // then RocksDB starts a new one
constexpr std::uint64_t kBlobBytesMin = 1024;      // between a header and a page
constexpr std::uint64_t kBlobFileBytes = 256_MiB;
constexpr char kBlockKey = 'b';
constexpr char kHeaderKey = 'i';

Error error_of(const rocksdb::Status& status) {
    ErrorCode code = status.IsCorruption() ? ErrorCode::kDataLoss
                     : status.IsIOError()  ? ErrorCode::kIo
                                           : ErrorCode::kInternal;
    return {code, status.ToString()};
}

Result<void> result_of(const rocksdb::Status& status) {
    if (status.ok()) return {};
    return error_of(status);
}

rocksdb::Slice slice_of(std::span<const std::byte> bytes) {
    return {reinterpret_cast<const char*>(bytes.data()), bytes.size()};
}
std::span<const std::byte> bytes_of(const rocksdb::Slice& slice) {
    return {reinterpret_cast<const std::byte*>(slice.data()), slice.size()};
}

// Big-endian, so that keys lie in the order of their hashes.
std::array<char, 9> key_of(char kind, BlockHash hash) {
    std::array<char, 9> out{kind};
    for (std::size_t i = 0; i < 8; ++i)
        out[i + 1] = static_cast<char>(hash.value >> (56 - 8 * i) & 0xFF);
    return out;
}

// "kv-NUMBER-MODEL-LAYOUT", hexadecimal.
std::string name_of(const Generation& generation) {
    return fmt::format("kv-{:08x}-{:016x}-{:016x}", generation.number,
                       generation.identity.model_digest, generation.identity.layout_digest);
}

std::optional<Generation> generation_of(std::string_view name) {
    if (name.size() != 45 || !name.starts_with("kv-") || name[11] != '-' || name[28] != '-')
        return std::nullopt;
    auto hex = [&](std::size_t at, std::size_t size, auto& out) {
        const char* end = name.data() + at + size;
        auto [stop, error] = std::from_chars(name.data() + at, end, out, 16);
        return error == std::errc{} && stop == end;
    };
    Generation out;
    if (!hex(3, 8, out.number) || !hex(12, 16, out.identity.model_digest) ||
        !hex(29, 16, out.identity.layout_digest))
        return std::nullopt;
    return out;
}

// RocksDB's own words, for somebody who debugs it; without this it would write a LOG file here.
class QuietLogger final : public rocksdb::Logger {
public:
    QuietLogger() : Logger(rocksdb::InfoLogLevel::WARN_LEVEL) {}
    using rocksdb::Logger::Logv;
    void Logv(const char* format, va_list arguments) override {
        if (!log_enabled(LogLevel::kDebug)) return;
        char line[512];
        std::vsnprintf(line, sizeof line, format, arguments);
        log_line(LogLevel::kDebug, line);
    }
};

// What happens on RocksDB's thread, for the owner.
class FlushWatch final : public rocksdb::EventListener {
public:
    void OnFlushCompleted(rocksdb::DB*, const rocksdb::FlushJobInfo&) override {
        std::lock_guard lock(mutex_);
        running_ = false;
        changed_.notify_all();
    }
    void OnBackgroundError(rocksdb::BackgroundErrorReason, rocksdb::Status* status) override {
        std::lock_guard lock(mutex_);
        if (!failure_) failure_ = error_of(*status);
        running_ = false;
        changed_.notify_all();
    }

    void begin() {
        std::lock_guard lock(mutex_);
        running_ = true;
    }
    void abandon() {
        std::lock_guard lock(mutex_);
        running_ = false;
    }
    Result<void> wait(Duration limit) {
        std::unique_lock lock(mutex_);
        bool idle = changed_.wait_for(lock, limit, [this] { return !running_; });
        if (failure_) return *failure_;
        if (!idle)
            return Error{ErrorCode::kDeadline, fmt::format("a flush has been running for {} ms",
                                                           static_cast<int>(to_ms(limit)))};
        return {};
    }
    [[nodiscard]] std::optional<Error> failure() const {
        std::lock_guard lock(mutex_);
        return failure_;
    }

private:
    // A mutex, because RocksDB's thread reports to the owner.
    mutable std::mutex mutex_;
    std::condition_variable changed_;
    bool running_ = false;
    std::optional<Error> failure_;
};

rocksdb::DBOptions database_options(const DiskGenerationsOptions& options) {
    rocksdb::DBOptions out;
    out.create_if_missing = true;
    if (options.env != nullptr) out.env = options.env;
    out.info_log = std::make_shared<QuietLogger>();
    out.statistics = rocksdb::CreateDBStatistics();
    out.statistics->set_stats_level(rocksdb::StatsLevel::kExceptHistogramOrTimers);
    out.allow_fallocate = false;  // preallocated blocks would count as space in use
    out.max_manifest_file_size = kManifestBytes;
    out.avoid_flush_during_shutdown = true;  // the owner flushes, where there is room
    out.max_bgerror_resume_count = 0;        // the owner opens it again
    out.max_background_jobs = 2;
    out.max_file_opening_threads = 1;  // else 16 are started for each generation
    out.stats_dump_period_sec = 0;
    out.stats_persist_period_sec = 0;
    out.use_direct_reads = options.direct_io;
    out.use_direct_io_for_flush_and_compaction = options.direct_io;
    return out;
}

rocksdb::ColumnFamilyOptions family_options(const DiskGenerationsOptions& options,
                                            const std::shared_ptr<rocksdb::Cache>& cache) {
    rocksdb::ColumnFamilyOptions out;
    out.write_buffer_size = options.buffer_bytes * 2;  // only the owner starts a flush
    out.max_write_buffer_number = 4;
    out.compression = rocksdb::kNoCompression;
    out.disable_auto_compactions = true;
    out.level0_slowdown_writes_trigger = 1 << 20;
    out.level0_stop_writes_trigger = 1 << 20;
    out.enable_blob_files = true;
    out.min_blob_size = kBlobBytesMin;
    out.blob_file_size = kBlobFileBytes;
    out.blob_compression_type = rocksdb::kNoCompression;
    rocksdb::BlockBasedTableOptions table;
    table.block_cache = cache;
    table.filter_policy.reset(rocksdb::NewBloomFilterPolicy(10, false));
    out.table_factory.reset(rocksdb::NewBlockBasedTableFactory(table));
    return out;
}

}  // namespace

struct DiskGenerations::Impl {
    struct Family {
        Generation generation;
        rocksdb::ColumnFamilyHandle* handle = nullptr;
    };

    explicit Impl(const DiskGenerationsOptions& options)
        : watch(std::make_shared<FlushWatch>()),
          cache(rocksdb::NewLRUCache(kCacheBytes, 1)),
          database(database_options(options)),
          family(family_options(options, cache)) {
        database.listeners.push_back(watch);
    }
    ~Impl() {
        if (!db) return;
        for (auto& [number, entry] : families) destroy(entry.handle);
        if (unnamed != nullptr) destroy(unnamed);
        db->Close().PermitUncheckedError();  // nothing is flushed here, so nothing is lost
    }
    void destroy(rocksdb::ColumnFamilyHandle* handle) const {
        db->DestroyColumnFamilyHandle(handle).PermitUncheckedError();
    }

    // Opens every family there is, and sorts them. Unknown ones are dropped.
    Result<void> open(const std::string& path);

    [[nodiscard]] rocksdb::ColumnFamilyHandle* handle_of(std::uint32_t number) const {
        auto at = families.find(number);
        TAPROOT_ASSERT(at != families.end());
        return at->second.handle;
    }

    std::shared_ptr<FlushWatch> watch;
    std::shared_ptr<rocksdb::Cache> cache;
    rocksdb::DBOptions database;
    rocksdb::ColumnFamilyOptions family;
    std::unique_ptr<rocksdb::DB> db;
    rocksdb::ColumnFamilyHandle* unnamed = nullptr;  // "default", which RocksDB insists on
    std::map<std::uint32_t, Family> families;
};

Result<void> DiskGenerations::Impl::open(const std::string& path) {
    std::vector<std::string> names;
    rocksdb::Status listed = rocksdb::DB::ListColumnFamilies(database, path, &names);
    // Open() says better what is wrong.
    if (!listed.ok() || names.empty()) names = {rocksdb::kDefaultColumnFamilyName};
    std::vector<rocksdb::ColumnFamilyDescriptor> descriptors;
    for (const std::string& name : names) descriptors.emplace_back(name, family);
    std::vector<rocksdb::ColumnFamilyHandle*> handles;
    rocksdb::DB* opened = nullptr;
    rocksdb::Status status = rocksdb::DB::Open(database, path, descriptors, &handles, &opened);
    if (!status.ok()) {
        Error error = error_of(status);
        // The directory is there, so a file that is not was lost.
        if (status.IsPathNotFound()) error.code = ErrorCode::kDataLoss;
        return error;
    }
    db.reset(opened);
    std::vector<rocksdb::ColumnFamilyHandle*> unknown;
    for (std::size_t i = 0; i < names.size(); ++i) {
        auto generation = generation_of(names[i]);
        if (names[i] == rocksdb::kDefaultColumnFamilyName)
            unnamed = handles[i];
        else if (generation && families.count(generation->number) == 0)
            families[generation->number] = {*generation, handles[i]};
        else
            unknown.push_back(handles[i]);
    }
    for (rocksdb::ColumnFamilyHandle* handle : unknown) {
        db->DropColumnFamily(handle).PermitUncheckedError();
        destroy(handle);
    }
    return {};
}

DiskGenerations::DiskGenerations(std::unique_ptr<Impl> impl) : impl_(std::move(impl)) {}
DiskGenerations::~DiskGenerations() = default;

Result<std::unique_ptr<DiskGenerations>> DiskGenerations::open(
    const DiskGenerationsOptions& options) {
    auto impl = std::make_unique<Impl>(options);
    TAPROOT_CHECK_OK(impl->open(options.database.string()));
    return std::unique_ptr<DiskGenerations>(new DiskGenerations(std::move(impl)));
}

std::vector<Generation> DiskGenerations::generations() const {
    std::vector<Generation> out;
    for (const auto& [number, entry] : impl_->families) out.push_back(entry.generation);
    return out;
}

Result<void> DiskGenerations::add(const Generation& generation) {
    TAPROOT_ASSERT(impl_->families.count(generation.number) == 0);
    rocksdb::ColumnFamilyHandle* handle = nullptr;
    TAPROOT_CHECK_OK(
        result_of(impl_->db->CreateColumnFamily(impl_->family, name_of(generation), &handle)));
    impl_->families[generation.number] = {generation, handle};
    return {};
}

Result<void> DiskGenerations::drop(std::uint32_t number) {
    rocksdb::ColumnFamilyHandle* handle = impl_->handle_of(number);
    TAPROOT_CHECK_OK(result_of(impl_->db->DropColumnFamily(handle)));
    impl_->families.erase(number);
    return result_of(impl_->db->DestroyColumnFamilyHandle(handle));  // deletes the files
}

Result<void> DiskGenerations::put(std::uint32_t number, BlockHash hash,
                                  std::span<const std::byte> header,
                                  std::span<const std::byte> payload) {
    rocksdb::ColumnFamilyHandle* handle = impl_->handle_of(number);
    auto block_key = key_of(kBlockKey, hash);
    auto header_key = key_of(kHeaderKey, hash);
    rocksdb::Slice key(block_key.data(), block_key.size());
    rocksdb::Slice value[2] = {slice_of(header), slice_of(payload)};
    rocksdb::WriteBatch batch(header.size() * 2 + payload.size() + 256);
    auto status = batch.Put(handle, rocksdb::SliceParts(&key, 1), rocksdb::SliceParts(value, 2));
    if (status.ok())
        status = batch.Put(handle, rocksdb::Slice(header_key.data(), header_key.size()), value[0]);
    rocksdb::WriteOptions options;
    options.disableWAL = true;
    if (status.ok()) status = impl_->db->Write(options, &batch);
    return result_of(status);
}

Result<bool> DiskGenerations::get(
    std::uint32_t number, BlockHash hash,
    const std::function<void(std::span<const std::byte>)>& read) const {
    auto key = key_of(kBlockKey, hash);
    rocksdb::PinnableSlice value;
    rocksdb::ReadOptions options;
    // Debian's RocksDB computes CRC-32C in software: more than half of the time of a read. The
    // caller's own checksum covers the value and the question it answers.
    options.verify_checksums = false;
    rocksdb::Status status = impl_->db->Get(options, impl_->handle_of(number),
                                            rocksdb::Slice(key.data(), key.size()), &value);
    if (status.IsNotFound()) return false;
    if (!status.ok()) return error_of(status);
    read(bytes_of(value));
    return true;
}

Result<void> DiskGenerations::scan(
    std::uint32_t number, const std::function<void(std::span<const std::byte>)>& header) const {
    const char first[1] = {kHeaderKey}, end[1] = {kHeaderKey + 1};
    rocksdb::Slice bound(end, 1);
    rocksdb::ReadOptions options;
    options.iterate_upper_bound = &bound;
    options.fill_cache = false;
    std::unique_ptr<rocksdb::Iterator> at(
        impl_->db->NewIterator(options, impl_->handle_of(number)));
    for (at->Seek(rocksdb::Slice(first, 1)); at->Valid(); at->Next()) header(bytes_of(at->value()));
    return result_of(at->status());
}

Result<void> DiskGenerations::start_flush(std::uint32_t number) {
    rocksdb::FlushOptions options;
    options.wait = false;
    options.allow_write_stall = true;
    impl_->watch->begin();
    rocksdb::Status status = impl_->db->Flush(options, impl_->handle_of(number));
    if (!status.ok()) impl_->watch->abandon();
    return result_of(status);
}

Result<void> DiskGenerations::wait_flush(Duration limit) {
    return impl_->watch->wait(limit);
}

std::optional<Error> DiskGenerations::failure() const {
    return impl_->watch->failure();
}

std::uint64_t DiskGenerations::written_bytes() const {
    const rocksdb::Statistics& statistics = *impl_->database.statistics;
    return statistics.getTickerCount(rocksdb::FLUSH_WRITE_BYTES) +
           statistics.getTickerCount(rocksdb::COMPACT_WRITE_BYTES) +
           statistics.getTickerCount(rocksdb::WAL_FILE_BYTES);
}

std::uint64_t DiskGenerations::memory_bytes() const {
    std::uint64_t out = impl_->cache->GetUsage();
    for (const std::string& name : {rocksdb::DB::Properties::kSizeAllMemTables,
                                    rocksdb::DB::Properties::kEstimateTableReadersMem}) {
        std::uint64_t bytes = 0;
        if (impl_->db->GetAggregatedIntProperty(name, &bytes)) out += bytes;
    }
    return out;
}

}  // namespace taproot
