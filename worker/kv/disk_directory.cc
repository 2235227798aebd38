// SPDX-License-Identifier: Apache-2.0
#include "worker/kv/disk_directory.h"

#include <dirent.h>
#include <fcntl.h>
#include <fmt/format.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <sys/statvfs.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <string>
#include <string_view>
#include <system_error>
#include <utility>

#include "base/log.h"

namespace taproot {
namespace {

namespace fs = std::filesystem;

constexpr std::string_view kFormatPrefix = "taproot kv ";
constexpr std::string_view kFormat = "taproot kv 1\n";

Error refused(const char* what, const fs::path& path, int error) {
    return {ErrorCode::kIo, fmt::format("{}: {}", what, std::strerror(error)), path.string()};
}

// Closed when it goes out of scope, unless released.
class Fd {
public:
    explicit Fd(int fd) : fd_(fd) {}
    ~Fd() {
        if (fd_ >= 0) ::close(fd_);
    }
    Fd(const Fd&) = delete;
    Fd& operator=(const Fd&) = delete;
    [[nodiscard]] int get() const { return fd_; }
    int release() { return std::exchange(fd_, -1); }

private:
    int fd_;
};

Result<void> make_private(const fs::path& path) {
    if (::mkdir(path.c_str(), 0700) != 0 && errno != EEXIST)
        return refused("cannot make the directory", path, errno);
    struct stat info {};
    if (::stat(path.c_str(), &info) != 0) return refused("cannot read the directory", path, errno);
    if (!S_ISDIR(info.st_mode)) return invalid_argument("is not a directory", path.string());
    // Cached KV can be turned back into text: nobody else may read it.
    if ((info.st_mode & 077) != 0 && ::chmod(path.c_str(), 0700) != 0)
        return refused("others may read this directory and its mode cannot be set to 0700", path,
                       errno);
    return {};
}

Result<bool> holds_nothing(const fs::path& path) {
    std::error_code error;
    fs::directory_iterator at(path, error);
    if (error) return refused("cannot list the directory", path, error.value());
    // A file system of its own brings lost+found.
    return std::all_of(fs::begin(at), fs::end(at), [](const fs::directory_entry& entry) {
        return entry.path().filename() == "lost+found";
    });
}

Result<std::string> read_format(int fd, const fs::path& path) {
    char text[64];
    ssize_t got = ::pread(fd, text, sizeof text, 0);
    if (got < 0) return refused("cannot read", path, errno);
    return std::string(text, static_cast<std::size_t>(got));
}

Result<void> write_format(int fd, const fs::path& path) {
    if (::ftruncate(fd, 0) != 0) return refused("cannot write", path, errno);
    ssize_t put = ::pwrite(fd, kFormat.data(), kFormat.size(), 0);
    if (put < 0) return refused("cannot write", path, errno);
    if (static_cast<std::size_t>(put) != kFormat.size())
        return refused("cannot write", path, ENOSPC);
    return {};
}

// Files that RocksDB deletes meanwhile are skipped.
Result<std::uint64_t> bytes_in(const fs::path& path) {
    DIR* folder = ::opendir(path.c_str());
    if (folder == nullptr) return refused("cannot list the directory", path, errno);
    std::uint64_t bytes = 0;
    while (const dirent* entry = ::readdir(folder)) {
        struct stat info {};
        if (std::strcmp(entry->d_name, "..") == 0 ||
            ::fstatat(::dirfd(folder), entry->d_name, &info, AT_SYMLINK_NOFOLLOW) != 0)
            continue;
        if (S_ISDIR(info.st_mode) && std::strcmp(entry->d_name, ".") != 0) continue;
        bytes += std::max(static_cast<std::uint64_t>(info.st_size),
                          static_cast<std::uint64_t>(info.st_blocks) * 512);
    }
    ::closedir(folder);
    return bytes;
}

}  // namespace

DiskDirectory::DiskDirectory(fs::path path, int lock_fd)
    : path_(std::move(path)), lock_fd_(lock_fd) {}

DiskDirectory::DiskDirectory(DiskDirectory&& other) noexcept
    : path_(std::move(other.path_)), lock_fd_(std::exchange(other.lock_fd_, -1)) {}

DiskDirectory& DiskDirectory::operator=(DiskDirectory&& other) noexcept {
    std::swap(path_, other.path_);
    std::swap(lock_fd_, other.lock_fd_);
    return *this;
}

DiskDirectory::~DiskDirectory() {
    if (lock_fd_ >= 0) ::close(lock_fd_);
}

Result<DiskDirectory> DiskDirectory::lock(const fs::path& path) {
    TAPROOT_CHECK_OK(make_private(path));
    const fs::path format = path / "FORMAT";
    if (::access(format.c_str(), F_OK) != 0) {
        TAPROOT_TRY(bool empty, holds_nothing(path));
        if (!empty)
            return invalid_argument(
                "is not empty and holds no KV of Taproot; give it a directory of its own",
                path.string());
    }
    Fd fd(::open(format.c_str(), O_RDWR | O_CREAT | O_CLOEXEC | O_NOFOLLOW, 0600));
    if (fd.get() < 0) return refused("cannot open", format, errno);
    if (::flock(fd.get(), LOCK_EX | LOCK_NB) != 0) {
        if (errno != EWOULDBLOCK) return refused("cannot lock", format, errno);
        return Error{ErrorCode::kUnavailable,
                     "is in use by another worker; each worker needs a directory of its own",
                     path.string()};
    }
    TAPROOT_TRY(std::string found, read_format(fd.get(), format));
    DiskDirectory out(path, fd.release());
    if (!found.empty() && found != kFormat) {
        if (!found.starts_with(kFormatPrefix))
            return invalid_argument("is not a file of Taproot", format.string());
        log_warn("disk store {}: written by another version of this program, starting empty",
                 path.string());
        TAPROOT_CHECK_OK(out.wipe());
    }
    if (found != kFormat) TAPROOT_CHECK_OK(write_format(out.lock_fd_, format));
    TAPROOT_CHECK_OK(make_private(out.database()));
    return out;
}

Result<std::uint64_t> DiskDirectory::used_bytes() const {
    TAPROOT_TRY(std::uint64_t own, bytes_in(path_));
    TAPROOT_TRY(std::uint64_t database, bytes_in(this->database()));
    return own + database;
}

Result<std::uint64_t> DiskDirectory::free_bytes() const {
    struct statvfs info {};
    if (::statvfs(path_.c_str(), &info) != 0)
        return refused("cannot ask for its free space", path_, errno);
    return static_cast<std::uint64_t>(info.f_bavail) * info.f_frsize;
}

bool DiskDirectory::direct_io_works() const {
    // O_TMPFILE would be cleaner, but not every file system that knows O_DIRECT knows it.
    const fs::path probe = database() / "direct_io_probe";
    Fd fd(::open(probe.c_str(), O_RDWR | O_CREAT | O_DIRECT | O_CLOEXEC | O_NOFOLLOW, 0600));
    ::unlink(probe.c_str());
    return fd.get() >= 0;
}

Result<void> DiskDirectory::wipe() const {
    std::error_code error;
    fs::remove_all(database(), error);
    if (error) return refused("cannot remove", database(), error.value());
    return make_private(database());
}

}  // namespace taproot
