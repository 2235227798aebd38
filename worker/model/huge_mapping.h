// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <cstdint>
#include <utility>

#include "base/result.h"

namespace taproot {

// Memory mapped at a multiple of 2 MiB, so that the kernel may back it with 2 MiB pages: anonymous
// or of a file. Without such pages everything works and reads are slower (a fifth to a third,
// docs/decisions/0004). Move-only; keeps its address when moved.
class HugeMapping {
public:
    HugeMapping() = default;
    // Zeroed and private. Error: kUnavailable.
    static Result<HugeMapping> anonymous(std::size_t bytes);
    // The first `bytes` of a file, shared with others who map it. A read-only mapping needs a
    // descriptor opened for reading only where the file is to be sealed.
    enum class Access : std::uint8_t { kRead, kReadWrite };
    static Result<HugeMapping> of_file(int fd, std::size_t bytes, Access access);
    ~HugeMapping();
    HugeMapping(HugeMapping&& other) noexcept { swap(other); }
    HugeMapping& operator=(HugeMapping&& other) noexcept {
        swap(other);
        return *this;
    }

    [[nodiscard]] std::byte* data() const { return data_; }
    [[nodiscard]] std::size_t bytes() const { return bytes_; }

    // Moves the memory of `other`, which is not larger, to the address of this, instead of what is
    // there. Error: nothing has changed.
    Result<void> replace_by(HugeMapping other);
    // Gathers memory of a file into 2 MiB pages now, also where the system does not do so by
    // itself for shared memory. `from_nothing`: the file is a new one and has no pages yet.
    // Advice only.
    void collapse(bool from_nothing);
    // Bytes now on 2 MiB pages, from /proc/self/smaps (milliseconds); 0 where that is not readable.
    [[nodiscard]] std::size_t huge_bytes() const;

private:
    void swap(HugeMapping& other) noexcept {
        std::swap(data_, other.data_);
        std::swap(bytes_, other.bytes_);
    }

    std::byte* data_ = nullptr;
    std::size_t bytes_ = 0;
};

}  // namespace taproot
