// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The Rueda authors
#pragma once

// Everything that a kernel needs from its compiler: qualifiers, the position of a thread, and access to memory. The
// same kernel bodies are compiled by nvcc, by clang as CUDA (without CUDA's headers), and by any C++ compiler for the
// host. Only source files of this folder and ops/reduce_float8.cpp include this header.

#include <cstddef>
#include <cstdint>
#include <cstring>

#if defined(__CUDA__) || defined(__CUDACC__)
#if defined(__clang__)
#define RUEDA_KERNEL extern "C" __attribute__((global)) __attribute__((launch_bounds(256)))
#define RUEDA_DEVICE __attribute__((device)) __attribute__((always_inline)) inline
#else
#define RUEDA_KERNEL extern "C" __global__ __launch_bounds__(256)
#define RUEDA_DEVICE __device__ __forceinline__
#endif
#define RUEDA_UNROLL _Pragma("unroll")
#else
#define RUEDA_DEVICE inline
#define RUEDA_UNROLL
#endif
// Lambdas with the body of a kernel must be inlined. If the kernel's parameter is passed to a function that is not
// inlined, every thread first copies the parameter to its own memory. A parameter has up to 4 KiB.
#if defined(__CUDA__) && defined(__clang__)
#define RUEDA_INLINED __attribute__((always_inline))
#else
#define RUEDA_INLINED
#endif

namespace rueda::ops::cuda {

/// The position of a thread in the grid. Kernels use no shared memory and no barriers. Therefore threads can run in any
/// order, and on the host they run one after the other.
struct Place {
    std::uint64_t index;    ///< position among all threads of the row
    std::uint64_t threads;  ///< number of threads of the row
    std::uint32_t row;
};

/// 16 bytes in registers.
struct Vector {
    std::uint32_t words[4];
};

#if defined(__CUDA_ARCH__)

RUEDA_DEVICE Place this_place() {
    std::uint32_t thread = 0;
    std::uint32_t block = 0;
    std::uint32_t threads = 0;
    std::uint32_t blocks = 0;
    std::uint32_t row = 0;
    asm("mov.u32 %0, %%tid.x;" : "=r"(thread));
    asm("mov.u32 %0, %%ctaid.x;" : "=r"(block));
    asm("mov.u32 %0, %%ntid.x;" : "=r"(threads));
    asm("mov.u32 %0, %%nctaid.x;" : "=r"(blocks));
    asm("mov.u32 %0, %%ctaid.y;" : "=r"(row));
    return {std::uint64_t{block} * threads + thread, std::uint64_t{blocks} * threads, row};
}

// The loads and stores of vectors are written in PTX, because clang 14 would divide each load or store in C++ into
// four. The compiler may move a load in PTX behind a store that follows it in the code. This does no harm, because no
// kernel loads data that one of its own threads has stored.
RUEDA_DEVICE Vector load_vector(const std::byte* memory) {
    Vector v;
    asm("{ .reg .u64 at; cvta.to.global.u64 at, %4; ld.global.v4.u32 {%0, %1, %2, %3}, [at]; }"
        : "=r"(v.words[0]), "=r"(v.words[1]), "=r"(v.words[2]), "=r"(v.words[3])
        : "l"(memory));
    return v;
}
RUEDA_DEVICE void store_vector(std::byte* memory, const Vector& v) {
    asm volatile("{ .reg .u64 at; cvta.to.global.u64 at, %0; st.global.v4.u32 [at], {%1, %2, %3, %4}; }" ::"l"(memory),
                 "r"(v.words[0]), "r"(v.words[1]), "r"(v.words[2]), "r"(v.words[3])
                 : "memory");
}
template <class T>
RUEDA_DEVICE T load_aligned(const std::byte* memory) {
    return *reinterpret_cast<const T*>(memory);
}
template <class T>
RUEDA_DEVICE void store_aligned(std::byte* memory, T value) {
    *reinterpret_cast<T*>(memory) = value;
}

#elif !defined(__CUDA__) && !defined(__CUDACC__)

/// Ends the program with a message. A GPU would end the kernel with CUDA_ERROR_MISALIGNED_ADDRESS, and the process
/// could not use the device any more.
[[noreturn]] void end_misaligned(const void* memory, std::size_t alignment);

inline void check_alignment(const void* memory, std::size_t alignment) {
    if (reinterpret_cast<std::uintptr_t>(memory) % alignment != 0) {
        end_misaligned(memory, alignment);
    }
}
inline Vector load_vector(const std::byte* memory) {
    check_alignment(memory, sizeof(Vector));
    Vector v;
    std::memcpy(&v, memory, sizeof(v));
    return v;
}
inline void store_vector(std::byte* memory, const Vector& v) {
    check_alignment(memory, sizeof(Vector));
    std::memcpy(memory, &v, sizeof(v));
}
template <class T>
T load_aligned(const std::byte* memory) {
    check_alignment(memory, sizeof(T));
    T value;
    std::memcpy(&value, memory, sizeof(T));
    return value;
}
template <class T>
void store_aligned(std::byte* memory, T value) {
    check_alignment(memory, sizeof(T));
    std::memcpy(memory, &value, sizeof(T));
}

#endif

/// These functions load and store an unsigned integer at any address, byte by byte.
template <class T>
RUEDA_DEVICE T load_bytes(const std::byte* memory) {
    std::uint64_t bits = 0;
    RUEDA_UNROLL
    for (std::size_t i = 0; i < sizeof(T); ++i) {
        bits |= static_cast<std::uint64_t>(load_aligned<std::uint8_t>(memory + i)) << (8 * i);
    }
    return static_cast<T>(bits);
}
template <class T>
RUEDA_DEVICE void store_bytes(std::byte* memory, T value) {
    RUEDA_UNROLL
    for (std::size_t i = 0; i < sizeof(T); ++i) {
        store_aligned(memory + i, static_cast<std::uint8_t>(static_cast<std::uint64_t>(value) >> (8 * i)));
    }
}

/// Returns element i of a vector of unsigned integers.
template <class T>
RUEDA_DEVICE T element_of(const Vector& v, std::size_t i) {
    if constexpr (sizeof(T) == 8) {
        return static_cast<T>(v.words[2 * i] | (static_cast<std::uint64_t>(v.words[2 * i + 1]) << 32));
    } else {
        constexpr std::size_t kInWord = 4 / sizeof(T);
        return static_cast<T>(v.words[i / kInWord] >> (8 * sizeof(T) * (i % kInWord)));
    }
}

/// Sets element i of a vector. The element must have been zero before.
template <class T>
RUEDA_DEVICE void set_element(Vector& v, std::size_t i, T value) {
    if constexpr (sizeof(T) == 8) {
        v.words[2 * i] = static_cast<std::uint32_t>(value);
        v.words[2 * i + 1] = static_cast<std::uint32_t>(value >> 32);
    } else {
        constexpr std::size_t kInWord = 4 / sizeof(T);
        v.words[i / kInWord] |= static_cast<std::uint32_t>(value) << (8 * sizeof(T) * (i % kInWord));
    }
}

}  // namespace rueda::ops::cuda
