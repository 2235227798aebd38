// SPDX-License-Identifier: Apache-2.0
#include "kernels/aligned_buffer.h"

#include <sys/mman.h>

#include <cstdint>
#include <cstring>
#include <limits>
#include <new>

namespace taproot {
namespace {

constexpr std::size_t kAlignment = 64;
constexpr std::size_t kHugePage = std::size_t{2} << 20;

// An anonymous map of `bytes` (a multiple of 2 MiB) that starts at a multiple of 2 MiB: map 2 MiB
// more, give the ends back. Null on failure.
std::byte* map_huge(std::size_t bytes) {
    void* raw = mmap(nullptr, bytes + kHugePage, PROT_READ | PROT_WRITE,
                     MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (raw == MAP_FAILED) return nullptr;
    auto* begin = static_cast<std::byte*>(raw);
    std::size_t misalignment = reinterpret_cast<std::uintptr_t>(raw) % kHugePage;
    std::size_t head = misalignment == 0 ? 0 : kHugePage - misalignment;
    std::size_t tail = kHugePage - head;
    if (head > 0) munmap(begin, head);
    if (tail > 0) munmap(begin + head + bytes, tail);
    // Advice only: without huge pages everything still works, a few percent slower.
    (void)madvise(begin + head, bytes, MADV_HUGEPAGE);
    return begin + head;
}

}  // namespace

AlignedBuffer::AlignedBuffer(std::size_t bytes) {
    if (bytes == 0 || bytes > std::numeric_limits<std::size_t>::max() / 2) return;
    if (bytes >= kHugePage) {
        std::size_t mapped = (bytes + kHugePage - 1) / kHugePage * kHugePage;
        data_ = map_huge(mapped);
        if (data_ == nullptr) return;
        mapped_bytes_ = mapped;
    } else {
        data_ = static_cast<std::byte*>(
            ::operator new (bytes, std::align_val_t{kAlignment}, std::nothrow));
        if (data_ == nullptr) return;
        std::memset(data_, 0, bytes);
    }
    bytes_ = bytes;
}

AlignedBuffer::~AlignedBuffer() {
    if (data_ == nullptr) return;
    if (mapped_bytes_ > 0) {
        munmap(data_, mapped_bytes_);
    } else {
        ::operator delete (data_, std::align_val_t{kAlignment});
    }
}

}  // namespace taproot
