// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <rocksdb/env.h>
#include <rocksdb/file_system.h>
#include <rocksdb/system_clock.h>

#include <atomic>
#include <cstdint>
#include <limits>
#include <memory>
#include <string>
#include <utility>

namespace taproot::testing {

// A disk that fails on demand, under RocksDB: Debian's package has no fault injection of its own.
// Thread-safe: RocksDB writes on its own thread.
struct DiskFaults {
    std::atomic<bool> read_error{false};   // EIO
    std::atomic<bool> write_error{false};  // EIO
    std::atomic<bool> read_only{false};    // EROFS: files cannot be made, renamed or removed
    std::atomic<std::int64_t> room_bytes{std::numeric_limits<std::int64_t>::max()};  // then ENOSPC

    void heal() {
        read_error = write_error = read_only = false;
        room_bytes = std::numeric_limits<std::int64_t>::max();
    }

    [[nodiscard]] rocksdb::IOStatus write(std::size_t bytes) {
        if (write_error) return rocksdb::IOStatus::IOError("injected", "Input/output error");
        if ((room_bytes -= static_cast<std::int64_t>(bytes)) < 0)
            return rocksdb::IOStatus::NoSpace("injected", "No space left on device");
        return rocksdb::IOStatus::OK();
    }
    [[nodiscard]] rocksdb::IOStatus read() const {
        if (read_error) return rocksdb::IOStatus::IOError("injected", "Input/output error");
        return rocksdb::IOStatus::OK();
    }
    [[nodiscard]] rocksdb::IOStatus change() const {
        if (read_only) return rocksdb::IOStatus::IOError("injected", "Read-only file system");
        return rocksdb::IOStatus::OK();
    }
};

class FailingWritableFile final : public rocksdb::FSWritableFileWrapper {
public:
    FailingWritableFile(std::unique_ptr<rocksdb::FSWritableFile> file, DiskFaults& faults)
        : FSWritableFileWrapper(file.get()), file_(std::move(file)), faults_(faults) {}

    using rocksdb::FSWritableFileWrapper::Append;
    using rocksdb::FSWritableFileWrapper::PositionedAppend;
    rocksdb::IOStatus Append(const rocksdb::Slice& data, const rocksdb::IOOptions& options,
                             rocksdb::IODebugContext* debug) override {
        rocksdb::IOStatus status = faults_.write(data.size());
        return status.ok() ? file_->Append(data, options, debug) : status;
    }
    rocksdb::IOStatus Append(const rocksdb::Slice& data, const rocksdb::IOOptions& options,
                             const rocksdb::DataVerificationInfo&,
                             rocksdb::IODebugContext* debug) override {
        return Append(data, options, debug);
    }
    rocksdb::IOStatus PositionedAppend(const rocksdb::Slice& data, std::uint64_t offset,
                                       const rocksdb::IOOptions& options,
                                       rocksdb::IODebugContext* debug) override {
        rocksdb::IOStatus status = faults_.write(data.size());
        return status.ok() ? file_->PositionedAppend(data, offset, options, debug) : status;
    }
    rocksdb::IOStatus PositionedAppend(const rocksdb::Slice& data, std::uint64_t offset,
                                       const rocksdb::IOOptions& options,
                                       const rocksdb::DataVerificationInfo&,
                                       rocksdb::IODebugContext* debug) override {
        return PositionedAppend(data, offset, options, debug);
    }

private:
    std::unique_ptr<rocksdb::FSWritableFile> file_;
    DiskFaults& faults_;
};

class FailingRandomAccessFile final : public rocksdb::FSRandomAccessFileWrapper {
public:
    FailingRandomAccessFile(std::unique_ptr<rocksdb::FSRandomAccessFile> file, DiskFaults& faults)
        : FSRandomAccessFileWrapper(file.get()), file_(std::move(file)), faults_(faults) {}

    rocksdb::IOStatus Read(std::uint64_t offset, std::size_t size,
                           const rocksdb::IOOptions& options, rocksdb::Slice* result, char* scratch,
                           rocksdb::IODebugContext* debug) const override {
        rocksdb::IOStatus status = faults_.read();
        return status.ok() ? file_->Read(offset, size, options, result, scratch, debug) : status;
    }

private:
    std::unique_ptr<rocksdb::FSRandomAccessFile> file_;
    DiskFaults& faults_;
};

class FailingFileSystem final : public rocksdb::FileSystemWrapper {
public:
    explicit FailingFileSystem(DiskFaults& faults)
        : FileSystemWrapper(rocksdb::FileSystem::Default()), faults_(faults) {}
    [[nodiscard]] const char* Name() const override { return "FailingFileSystem"; }

    rocksdb::IOStatus NewWritableFile(const std::string& name, const rocksdb::FileOptions& options,
                                      std::unique_ptr<rocksdb::FSWritableFile>* out,
                                      rocksdb::IODebugContext* debug) override {
        if (auto status = faults_.change(); !status.ok()) return status;
        std::unique_ptr<rocksdb::FSWritableFile> file;
        auto status = target()->NewWritableFile(name, options, &file, debug);
        if (status.ok()) *out = std::make_unique<FailingWritableFile>(std::move(file), faults_);
        return status;
    }
    rocksdb::IOStatus NewRandomAccessFile(const std::string& name,
                                          const rocksdb::FileOptions& options,
                                          std::unique_ptr<rocksdb::FSRandomAccessFile>* out,
                                          rocksdb::IODebugContext* debug) override {
        std::unique_ptr<rocksdb::FSRandomAccessFile> file;
        auto status = target()->NewRandomAccessFile(name, options, &file, debug);
        if (status.ok()) *out = std::make_unique<FailingRandomAccessFile>(std::move(file), faults_);
        return status;
    }
    rocksdb::IOStatus RenameFile(const std::string& from, const std::string& to,
                                 const rocksdb::IOOptions& options,
                                 rocksdb::IODebugContext* debug) override {
        auto status = faults_.change();
        return status.ok() ? target()->RenameFile(from, to, options, debug) : status;
    }
    rocksdb::IOStatus DeleteFile(const std::string& name, const rocksdb::IOOptions& options,
                                 rocksdb::IODebugContext* debug) override {
        auto status = faults_.change();
        return status.ok() ? target()->DeleteFile(name, options, debug) : status;
    }

private:
    DiskFaults& faults_;
};

// RocksDB waits a second after each failed flush; tests fail hundreds of times.
class ImpatientClock final : public rocksdb::SystemClockWrapper {
public:
    ImpatientClock() : SystemClockWrapper(rocksdb::SystemClock::Default()) {}
    [[nodiscard]] const char* Name() const override { return "ImpatientClock"; }
    void SleepForMicroseconds(int) override {}
};

class FailingEnv final : public rocksdb::EnvWrapper {
public:
    explicit FailingEnv(DiskFaults& faults)
        : EnvWrapper(rocksdb::NewCompositeEnv(std::make_shared<FailingFileSystem>(faults))) {
        file_system_ = std::make_shared<FailingFileSystem>(faults);
        system_clock_ = std::make_shared<ImpatientClock>();
    }
    [[nodiscard]] const char* Name() const override { return "FailingEnv"; }
};

// The Env to give to RocksDB. Outlives the databases opened with it.
class FailingDisk {
public:
    FailingDisk() : env_(std::make_unique<FailingEnv>(faults)) {}
    [[nodiscard]] rocksdb::Env* env() const { return env_.get(); }

    DiskFaults faults;

private:
    std::unique_ptr<rocksdb::Env> env_;
};

}  // namespace taproot::testing
