// SPDX-License-Identifier: Apache-2.0
#include "worker/model/huge_mapping.h"

#include <fmt/format.h>
#include <sys/mman.h>

#include <algorithm>
#include <cerrno>
#include <cstdint>
#include <cstring>
#include <fstream>
#include <string>

#include "base/assert.h"
#include "base/units.h"

#ifndef MADV_COLLAPSE
#define MADV_COLLAPSE 25  // Linux 6.1; older kernels refuse the advice
#endif

namespace taproot {
namespace {

constexpr std::size_t kHugePage = 2_MiB;

Error no_memory(std::size_t bytes) {
    return Error{ErrorCode::kUnavailable,
                 fmt::format("cannot map {} bytes of weights: {}", bytes, std::strerror(errno))};
}

// Address space for `bytes`, at a multiple of 2 MiB; null when there is none.
std::byte* reserve(std::size_t bytes) {
    if (bytes == 0 || bytes > SIZE_MAX / 2) {
        errno = ENOMEM;
        return nullptr;
    }
    std::size_t room = round_up(bytes, kHugePage);
    void* raw = ::mmap(nullptr, room + kHugePage, PROT_NONE,
                       MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    if (raw == MAP_FAILED) return nullptr;
    auto address = reinterpret_cast<std::uintptr_t>(raw);
    std::size_t head = round_up(address, std::uintptr_t{kHugePage}) - address;
    auto* begin = static_cast<std::byte*>(raw);
    if (head > 0) ::munmap(begin, head);
    if (head < kHugePage) ::munmap(begin + head + room, kHugePage - head);
    return begin + head;
}

}  // namespace

Result<HugeMapping> HugeMapping::anonymous(std::size_t bytes) {
    HugeMapping out;
    out.data_ = reserve(bytes);
    if (out.data_ == nullptr) return no_memory(bytes);
    out.bytes_ = round_up(bytes, kHugePage);  // whole pages: no small one at the end
    if (::mmap(out.data_, out.bytes_, PROT_READ | PROT_WRITE,
               MAP_FIXED | MAP_PRIVATE | MAP_ANONYMOUS, -1, 0) == MAP_FAILED)
        return no_memory(bytes);
    (void)::madvise(out.data_, out.bytes_, MADV_HUGEPAGE);
    return out;
}

Result<HugeMapping> HugeMapping::of_file(int fd, std::size_t bytes, Access access) {
    HugeMapping out;
    out.data_ = reserve(bytes);
    if (out.data_ == nullptr) return no_memory(bytes);
    out.bytes_ = bytes;
    int protection = access == Access::kRead ? PROT_READ : PROT_READ | PROT_WRITE;
    if (::mmap(out.data_, bytes, protection, MAP_FIXED | MAP_SHARED, fd, 0) == MAP_FAILED)
        return no_memory(bytes);
    (void)::madvise(out.data_, bytes, MADV_HUGEPAGE);
    return out;
}

HugeMapping::~HugeMapping() {
    if (data_ != nullptr) ::munmap(data_, round_up(bytes_, kHugePage));  // with reserved space
}

Result<void> HugeMapping::replace_by(HugeMapping other) {
    TAPROOT_ASSERT(other.bytes_ <= bytes_);
    if (::mremap(other.data_, other.bytes_, other.bytes_, MREMAP_MAYMOVE | MREMAP_FIXED, data_) ==
        MAP_FAILED)
        return no_memory(other.bytes_);
    return {};  // the destructor of `other` frees the space that it had reserved
}

void HugeMapping::collapse(bool from_nothing) {
    // One touched small page is what the kernel needs to make a large one around it.
    if (from_nothing)
        for (std::size_t at = 0; at < bytes_; at += kHugePage)
            *const_cast<volatile std::byte*>(data_ + at) = std::byte{0};
    (void)::madvise(data_, bytes_, MADV_COLLAPSE);
}

std::size_t HugeMapping::huge_bytes() const {
    std::ifstream smaps("/proc/self/smaps");
    std::string line;
    std::size_t huge = 0;
    bool ours = false;
    auto begin = reinterpret_cast<std::uintptr_t>(data_);
    while (std::getline(smaps, line)) {
        std::uintptr_t from = 0, to = 0;
        if (std::sscanf(line.c_str(), "%lx-%lx ", &from, &to) == 2) {
            ours = from < begin + bytes_ && to > begin;  // one mapping may lie in several areas
            continue;
        }
        std::size_t kib = 0;
        if (ours && (std::sscanf(line.c_str(), "AnonHugePages: %zu", &kib) == 1 ||
                     std::sscanf(line.c_str(), "ShmemPmdMapped: %zu", &kib) == 1 ||
                     std::sscanf(line.c_str(), "FilePmdMapped: %zu", &kib) == 1))
            huge += kib * 1024;
    }
    return huge;
}

}  // namespace taproot
