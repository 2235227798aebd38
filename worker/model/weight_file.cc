// SPDX-License-Identifier: Apache-2.0
#include "worker/model/weight_file.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <sys/statvfs.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstring>

#include "base/units.h"

namespace taproot {
namespace {

namespace fs = std::filesystem;

constexpr std::uint64_t kSpaceLeft = 64_MiB;  // of the file system, for everybody else

Error system_error(const fs::path& path, const char* what) {
    ErrorCode code = errno == ENOENT   ? ErrorCode::kNotFound
                     : errno == ENOSPC ? ErrorCode::kUnavailable
                                       : ErrorCode::kIo;
    return {code, fmt::format("{}: {}", what, std::strerror(errno)), path.string()};
}

struct Descriptor {
    int fd;
    ~Descriptor() {
        if (fd >= 0) ::close(fd);
    }
};

Result<void> check_space(const fs::path& folder, std::uint64_t bytes) {
    struct statvfs info = {};
    if (::statvfs(folder.c_str(), &info) != 0) return system_error(folder, "cannot look for space");
    std::uint64_t free = std::uint64_t{info.f_bavail} * info.f_frsize;
    if (free < bytes + kSpaceLeft)
        return Error{ErrorCode::kUnavailable,
                     fmt::format("{} MiB are needed and {} MiB should stay free, {} MiB are free",
                                 bytes / 1_MiB + 1, kSpaceLeft / 1_MiB, free / 1_MiB),
                     folder.string()};
    return {};
}

// Whether `path` still names the file behind `fd`: it does not when somebody renamed it while we
// waited for the lock.
bool is_still(const fs::path& path, int fd) {
    struct stat ours = {}, named = {};
    return ::fstat(fd, &ours) == 0 && ::stat(path.c_str(), &named) == 0 &&
           ours.st_dev == named.st_dev && ours.st_ino == named.st_ino;
}

Result<void> write_all(const fs::path& path, int fd, std::span<const std::byte> bytes) {
    constexpr std::size_t kPiece = 8_MiB;  // large writes get large pages in the page cache
    while (!bytes.empty()) {
        ssize_t wrote = ::write(fd, bytes.data(), std::min(kPiece, bytes.size()));
        if (wrote < 0 && errno == EINTR) continue;
        if (wrote <= 0) return system_error(path, "cannot write");
        bytes = bytes.subspan(static_cast<std::size_t>(wrote));
    }
    return {};
}

Result<void> fill(const fs::path& path, int fd, std::uint32_t mode, const WeightImageHeader& header,
                  std::span<const std::byte> payload) {
    std::array<std::byte, WeightImageHeader::kBytes> start;
    write_weight_image_header(header, start);
    if (::fchmod(fd, mode) != 0 || ::ftruncate(fd, 0) != 0)
        return system_error(path, "cannot prepare");
    TAPROOT_CHECK_OK(write_all(path, fd, start));
    TAPROOT_CHECK_OK(write_all(path, fd, payload));
    if (::fsync(fd) != 0) return system_error(path, "cannot flush");
    return {};
}

}  // namespace

Result<OpenWeightFile> open_weight_file(const fs::path& path, const WeightIdentity& identity) {
    Descriptor file{::open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK)};
    if (file.fd < 0) return system_error(path, "cannot open");
    struct stat info = {};
    if (::fstat(file.fd, &info) != 0) return system_error(path, "cannot stat");
    if (!S_ISREG(info.st_mode)) return Error{ErrorCode::kIo, "not a regular file", path.string()};
    std::array<std::byte, WeightImageHeader::kBytes> start;
    ssize_t read = ::pread(file.fd, start.data(), start.size(), 0);
    if (read < 0) return system_error(path, "cannot read");
    auto header = parse_weight_image_header(std::span(start).first(static_cast<std::size_t>(read)),
                                            static_cast<std::uint64_t>(info.st_size));
    if (!header) return invalid_argument(header.error().message, path.string());
    if (header->identity != identity) {
        bool same_model = header->identity.model_digest == identity.model_digest &&
                          header->identity.model_bytes == identity.model_bytes;
        return invalid_argument(
            same_model ? "holds another layout" : "was made from another model file",
            path.string());
    }
    OpenWeightFile out;
    TAPROOT_TRY(out.mapping,
                HugeMapping::of_file(file.fd, WeightImageHeader::kBytes + identity.payload_bytes,
                                     HugeMapping::Access::kRead));
    out.payload_digest = header->payload_digest;
    return out;
}

Result<void> write_weight_file(const fs::path& path, std::uint32_t mode,
                               const WeightImageHeader& header,
                               std::span<const std::byte> payload) {
    fs::path temporary = path;
    temporary += ".tmp";
    fs::path folder = path.has_parent_path() ? path.parent_path() : ".";
    TAPROOT_CHECK_OK(check_space(folder, payload.size() + WeightImageHeader::kBytes));
    Descriptor file{::open(temporary.c_str(), O_RDWR | O_CREAT | O_CLOEXEC | O_NOFOLLOW, 0600)};
    if (file.fd < 0) return system_error(temporary, "cannot create");
    if (::flock(file.fd, LOCK_EX | LOCK_NB) != 0 || !is_still(temporary, file.fd))
        return Error{ErrorCode::kUnavailable, "another process is writing it", temporary.string()};
    if (auto filled = fill(temporary, file.fd, mode, header, payload); !filled) {
        ::unlink(temporary.c_str());
        return filled;
    }
    if (::rename(temporary.c_str(), path.c_str()) != 0) {
        Error error = system_error(path, "cannot rename");
        ::unlink(temporary.c_str());
        return error;
    }
    // Without this the name may be lost in a power failure, and is then made again.
    Descriptor directory{::open(folder.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC)};
    if (directory.fd < 0 || ::fsync(directory.fd) != 0) return system_error(folder, "cannot flush");
    return {};
}

}  // namespace taproot
