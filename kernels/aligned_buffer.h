// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <utility>

namespace taproot {

// Zeroed memory for weights, KV pages and scratch: 64-byte aligned; from 2 MiB on an anonymous map
// aligned to 2 MiB with transparent huge pages asked for. Move-only. data() is null when allocation
// failed or bytes is 0.
class AlignedBuffer {
public:
    AlignedBuffer() = default;
    explicit AlignedBuffer(std::size_t bytes);
    ~AlignedBuffer();
    AlignedBuffer(AlignedBuffer&& other) noexcept { swap(other); }
    AlignedBuffer& operator=(AlignedBuffer&& other) noexcept {
        swap(other);
        return *this;
    }

    [[nodiscard]] std::byte* data() { return data_; }
    [[nodiscard]] const std::byte* data() const { return data_; }
    [[nodiscard]] std::size_t bytes() const { return bytes_; }
    template <typename T>
    [[nodiscard]] T* as() {
        return reinterpret_cast<T*>(data_);
    }
    template <typename T>
    [[nodiscard]] const T* as() const {
        return reinterpret_cast<const T*>(data_);
    }

private:
    void swap(AlignedBuffer& other) noexcept {
        std::swap(data_, other.data_);
        std::swap(bytes_, other.bytes_);
        std::swap(mapped_bytes_, other.mapped_bytes_);
    }

    std::byte* data_ = nullptr;
    std::size_t bytes_ = 0;
    std::size_t mapped_bytes_ = 0;  // 0: from aligned new
};

}  // namespace taproot
