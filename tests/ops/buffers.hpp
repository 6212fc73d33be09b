// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The Rueda authors
#pragma once

#include <hwy/targets.h>

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <iterator>
#include <memory>
#include <random>
#include <vector>

#include "reference.hpp"

namespace rueda::ops::test {

inline constexpr DType kIntegers[] = {DType::uint8, DType::int8,   DType::int16, DType::uint16,
                                      DType::int32, DType::uint32, DType::int64, DType::uint64};
inline constexpr DType kDTypes[] = {DType::uint8,   DType::int8,          DType::int16,      DType::uint16,
                                    DType::int32,   DType::uint32,        DType::int64,      DType::uint64,
                                    DType::boolean, DType::float16,       DType::bfloat16,   DType::float32,
                                    DType::float64, DType::float8_e4m3fn, DType::float8_e5m2};
static_assert(std::size(kDTypes) == kDTypeCount);
inline constexpr ReduceOp kOps[] = {ReduceOp::sum, ReduceOp::average, ReduceOp::min, ReduceOp::max, ReduceOp::product};

inline bool is_integer(DType dtype) {
    return std::find(std::begin(kIntegers), std::end(kIntegers), dtype) != std::end(kIntegers);
}

/// Returns the reductions that the type supports.
inline std::vector<ReduceOp> ops_of(DType dtype) {
    return dtype == DType::boolean ? std::vector{ReduceOp::min, ReduceOp::max, ReduceOp::product}
                                   : std::vector(std::begin(kOps), std::end(kOps));
}

/// The functions with which Buffer allocates and frees its memory. A test may replace these functions, for example to
/// use the memory of a device.
struct BufferMemory {
    void* (*allocate)(std::size_t bytes);
    void (*release)(void* memory);
};
inline BufferMemory buffer_memory{[](std::size_t bytes) { return ::operator new (bytes, std::align_val_t{64}); },
                                  [](void* memory) { ::operator delete (memory, std::align_val_t{64}); }};

/// Memory that begins `shift` bytes after an address that is a multiple of 64. Without a margin, the memory ends where
/// its allocation ends, so that AddressSanitizer reports an access even one byte beyond the end. With a margin, a
/// pattern fills the `margin` bytes before and after the memory, and shows writes beyond the memory.
class Buffer {
public:
    Buffer(std::size_t bytes, std::size_t shift, std::size_t margin)
        : bytes_(bytes),
          margin_(margin),
          begin_(64 + shift + margin),
          memory_(static_cast<std::byte*>(buffer_memory.allocate(begin_ + bytes + margin))) {
        std::memset(memory_.get(), kCanary, begin_ + bytes + margin);
    }
    Buffer(const Bytes& content, std::size_t shift, std::size_t margin) : Buffer(content.size(), shift, margin) {
        std::copy(content.begin(), content.end(), data());
    }
    std::byte* data() { return memory_.get() + begin_; }
    bool holds(const Bytes& content) { return std::equal(data(), data() + bytes_, content.begin(), content.end()); }
    bool canaries_alive() {
        const auto alive = [](std::byte b) { return b == std::byte{kCanary}; };
        return std::all_of(memory_.get(), data(), alive) &&
               std::all_of(data() + bytes_, data() + bytes_ + margin_, alive);
    }

private:
    static constexpr unsigned char kCanary = 0xA5;
    struct Delete {
        void operator()(std::byte* p) const { buffer_memory.release(p); }
    };
    std::size_t bytes_;
    std::size_t margin_;
    std::size_t begin_;
    std::unique_ptr<std::byte, Delete> memory_;
};

/// Returns random elements. Half of them have arbitrary bits (NaNs, infinities, subnormals, extreme values). The others
/// are moderate numbers, whose sums and products stay finite and show every rounding. For bool, half of the elements
/// are the byte 0 (false), and each of the others is any other byte.
inline Bytes random_elements(DType dtype, std::size_t count, std::mt19937_64& random) {
    Bytes bytes(count * size_of(dtype));
    for (std::size_t i = 0; i < count; ++i) {
        std::uint64_t bits = random();
        if (dtype == DType::boolean) {
            bits = (random() & 1) != 0 ? bits : 0;
        } else if ((random() & 1) != 0) {
            const double value = std::ldexp(static_cast<double>(static_cast<std::int64_t>(bits)), -62);
            if (dtype == DType::float64) {
                std::memcpy(&bits, &value, sizeof(value));
            } else if (dtype == DType::float32) {
                const auto narrow = static_cast<float>(value);
                std::memcpy(&bits, &narrow, sizeof(narrow));
            } else if (dtype == DType::float16 || dtype == DType::bfloat16 || is_float8(dtype)) {
                bits = encode(dtype, value);
            } else {
                bits = static_cast<std::uint64_t>(static_cast<std::int64_t>(value * 60.0));
            }
        }
        std::memcpy(bytes.data() + i * size_of(dtype), &bits, size_of(dtype));
    }
    return bytes;
}

/// Runs `body` once for every SIMD instruction set that the machine and the compiler support. While `body` runs,
/// reduce() and copy() use that instruction set.
template <class Body>
void for_each_target(Body body) {
    for (const std::int64_t target : hwy::SupportedAndGeneratedTargets()) {
        hwy::SetSupportedTargetsForTest(target);
        body(target);
    }
    hwy::SetSupportedTargetsForTest(0);
}

}  // namespace rueda::ops::test
