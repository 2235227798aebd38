// SPDX-License-Identifier: Apache-2.0
#include "worker/model/mapped_file.h"

#include <fcntl.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>

namespace taproot {
namespace {

Error system_error(const std::filesystem::path& path, const char* what) {
    ErrorCode code = errno == ENOENT ? ErrorCode::kNotFound : ErrorCode::kIo;
    return {code, std::string(what) + ": " + std::strerror(errno), path.string()};
}

struct Descriptor {
    int fd;
    ~Descriptor() {
        if (fd >= 0) ::close(fd);
    }
};

}  // namespace

Result<MappedFile> MappedFile::open(const std::filesystem::path& path) {
    // O_NONBLOCK: opening a pipe or device by mistake must not wait.
    Descriptor file{::open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK)};
    if (file.fd < 0) return system_error(path, "cannot open");
    struct stat info = {};
    if (::fstat(file.fd, &info) != 0) return system_error(path, "cannot stat");
    if (!S_ISREG(info.st_mode)) return Error{ErrorCode::kIo, "not a regular file", path.string()};

    MappedFile out;
    auto size = static_cast<std::size_t>(info.st_size);
    if (size == 0) return out;
    void* data = ::mmap(nullptr, size, PROT_READ, MAP_PRIVATE, file.fd, 0);
    if (data == MAP_FAILED) return system_error(path, "cannot map");
    out.bytes_ = {static_cast<const std::byte*>(data), size};
    return out;
}

MappedFile::~MappedFile() {
    if (!bytes_.empty()) ::munmap(const_cast<std::byte*>(bytes_.data()), bytes_.size());
}

}  // namespace taproot
