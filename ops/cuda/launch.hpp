// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The Rueda authors
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <span>

#include "ops/cuda/kernel_arguments.hpp"
#include "ops/reduce.hpp"

namespace rueda::ops::cuda {

/// The size of a grid. All blocks have kThreads threads.
struct Geometry {
    std::uint32_t blocks = 1;
    std::uint32_t rows = 1;  ///< the grid's second dimension: the items of a batch
};

/// Returns the number of blocks for this number of threads. Kernels accept any number of blocks, because each thread
/// continues until all elements are done. The number is limited to kMostBlocks.
[[nodiscard]] std::uint32_t blocks_for(std::uint64_t threads);

/// The maximum number of blocks of a launch. It is nearly twice the number that the largest GPU of 2026 executes at a
/// time: a B200 has 148 multiprocessors, each with up to 8 blocks of 256 threads.
inline constexpr std::uint32_t kMostBlocks = 2048;

/// The data for cuLaunchKernel: the kernel's name, the grid, and the address of the argument.
template <class Arguments>
struct Launch {
    const char* kernel = nullptr;
    Geometry geometry;
    Arguments arguments{};
};

// The functions below only compute launches; they touch no device and no memory of a tensor. Pointers may have any
// alignment. A kernel reaches its full speed if all pointers of a launch (or of an item of a batch) are multiples of
// 16. If all elements have the same size and are aligned, it is enough that the pointers are equal modulo 16. Threads:
// any thread may call these functions.

/// A reduction of up to kMostSources sources, with the bits of ops::reduce(). `reduction` must be defined
/// (is_defined()) and not be adasum.
[[nodiscard]] Launch<ReduceArguments> reduce_launch(const Reduction& reduction,
                                                    std::span<const std::byte* const> sources, std::byte* destination,
                                                    std::uint64_t count);

/// How the elements of a batch are copied. The factor is converted to the wider of the two types (16-bit types count as
/// float32). Each element is multiplied by the factor in this type, and the product is rounded once to the
/// destination's type. NaNs become the positive quiet NaN. Integers are multiplied as in ops::reduce(). If the types
/// are equal and the factor is 1, bytes are copied unchanged.
struct Conversion {
    DType from = DType::float32;
    DType to = DType::float32;
    double factor = 1.0;
};

/// Whether there is a kernel for the conversion. There is one if the two types are equal, or if both are floating-point
/// types of 16 bits or more. Elements of type bool are only copied, without a factor.
[[nodiscard]] bool is_convertible(const Conversion& conversion);

/// Copies up to kMostItems tensors in one launch. `count` of an item is its number of elements. A tensor must not
/// overlap another one; source and destination of an item may be identical if their types are equal.
[[nodiscard]] Launch<BatchArguments> batch_launch(const Conversion& conversion, std::span<const BatchItem> items);

/// Writes `count` neutral elements of the reduction (ops/neutral.hpp).
[[nodiscard]] Launch<FillArguments> neutral_launch(const Reduction& reduction, std::byte* destination,
                                                   std::uint64_t count);
/// Writes `bytes` bytes of zeros.
[[nodiscard]] Launch<FillArguments> zero_launch(std::byte* destination, std::uint64_t bytes);

/// The tensor and the sources of an adasum. `parts` is the number of parts in which the dot products are computed; it
/// is part of the definition of the result's bits. ops::adasum() has as many parts as sources.
struct Adasum {
    DType dtype = DType::float32;
    double factor = 1.0;  ///< prescale * postscale
    std::uint32_t parts = 1;
};

/// Returns how many doubles of device memory an adasum needs.
[[nodiscard]] std::size_t adasum_workspace(const Adasum& adasum, std::size_t sources, std::uint64_t count);

/// Returns the four launches of an adasum of up to kMostSources sources, in the order in which one stream must execute
/// them. A source that is null counts as zeros. `workspace` is device memory for adasum_workspace() doubles; it needs
/// no initial values, and no other adasum may use it until the last kernel has ended.
[[nodiscard]] std::array<Launch<AdasumArguments>, 4> adasum_launches(const Adasum& adasum,
                                                                     std::span<const std::byte* const> sources,
                                                                     std::byte* destination, std::uint64_t count,
                                                                     double* workspace);

}  // namespace rueda::ops::cuda
