// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The Rueda authors
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/status.hpp"
#include "collectives/operation.hpp"
#include "ops/reduce.hpp"
#include "rueda/rueda.h"
#include "rueda/types.hpp"

namespace rueda::core {

/// Everything that the members of a process set must agree on about an operation. All fields have fixed widths, because
/// the struct is stored in the arena. Values that may differ between correct ranks are left out. For example, the shape
/// of an allgather or alltoall holds kAnyExtent instead of the first dimension.
struct Metadata {
    static constexpr std::int64_t kAnyExtent = -1;

    std::uint8_t operation = 0;  ///< collectives::Operation
    std::uint8_t dtype = 0;      ///< DType
    std::uint8_t reduce_op = 0;  ///< a ReduceOp; 0 if the operation has none
    std::uint8_t ndim = 0;
    std::int32_t root = 0;          ///< 0 if the operation has none
    std::int32_t process_set = 0;   ///< id
    std::uint16_t compression = 0;  ///< Compression
    /// 1 if the caller gave a root that is not a rank of the set; `root` is then the number that the caller gave
    std::uint8_t root_is_foreign = 0;
    std::uint8_t device = 0;  ///< a DeviceType, which says where the tensors are, or kRowsOfDevice
    double prescale = 1.0;
    double postscale = 1.0;
    std::int64_t shape[RUEDA_MAX_DIMENSIONS] = {};  ///< `ndim` extents, then zeros
};
static_assert(sizeof(Metadata) == 160 && std::is_trivially_copyable_v<Metadata>);

/// A value of Metadata::device that marks an exchange: before PyTorch can allocate outputs on a GPU, the ranks exchange
/// the numbers of rows of their tensors. The exchanged tensors are in the CPU's memory. An exchange never matches an
/// operation on tensors of the CPU, so ranks that disagree about the device of a tensor get a mismatch.
inline constexpr std::uint8_t kRowsOfDevice = 2;

/// Whether the tensors are in the memory of a device, and not in the CPU's memory.
[[nodiscard]] constexpr bool is_on_device(const Metadata& metadata) {
    return metadata.device == static_cast<std::uint8_t>(DeviceType::cuda);
}

/// Whether two ranks announced the same operation. Scale factors are compared by their bits, so a NaN equals itself.
[[nodiscard]] bool agree(const Metadata& a, const Metadata& b);

/// A hash of all fields, for unnamed operations.
[[nodiscard]] std::uint64_t signature_of(const Metadata& metadata);

/// Returns the size of the tensor in bytes. If the first dimension may differ between ranks, returns the size of one
/// row.
[[nodiscard]] std::uint64_t bytes_of(const Metadata& metadata);

/// Returns the reduction that the metadata describe. The caller must set the divisor of the result.
[[nodiscard]] inline ops::Reduction reduction_of(const Metadata& metadata) {
    return {.dtype = static_cast<DType>(metadata.dtype),
            .op = static_cast<ReduceOp>(metadata.reduce_op),
            .prescale = metadata.prescale,
            .postscale = metadata.postscale};
}

/// Whether the values may be compressed when they are sent between hosts. This is possible only in an allreduce of
/// float32 or float64 without adasum.
[[nodiscard]] constexpr bool may_compress(const Metadata& metadata) {
    const auto dtype = static_cast<DType>(metadata.dtype);
    return metadata.operation == static_cast<std::uint8_t>(collectives::Operation::allreduce) &&
           (dtype == DType::float32 || dtype == DType::float64) &&
           metadata.reduce_op != static_cast<std::uint8_t>(ReduceOp::adasum);
}

/// Says which operations may share a batch: those with the same value. The exception is `alone`: such an operation is
/// always a batch of its own.
enum class Fusion : std::uint32_t {
    alone = 0,
    allreduces = 1,         ///< allreduces without adasum
    adasums = 2,            ///< allreduces with adasum; a task of another class executes them
    device_allreduces = 3,  ///< allreduces of tensors in device memory
};
[[nodiscard]] constexpr Fusion fusion_of(const Metadata& metadata) {
    if (metadata.operation != static_cast<std::uint8_t>(collectives::Operation::allreduce)) {
        return Fusion::alone;
    }
    if (is_on_device(metadata)) {
        return Fusion::device_allreduces;
    }
    return metadata.reduce_op == static_cast<std::uint8_t>(ReduceOp::adasum) ? Fusion::adasums : Fusion::allreduces;
}

/// Whether a correct rank could have written `metadata`. False for unknown enumerators, too many dimensions or negative
/// extents. True also for an operation that no rank can do, because correct ranks announce such an operation too
/// (is_possible()).
[[nodiscard]] bool is_plausible(const Metadata& metadata);

/// Returns the Mismatch error for all members: it says what differs, and which ranks have which value.
///
///     tensor 'layer1.weight': the ranks disagree about the shape: ranks 0-2: [3, 4]; rank 3: [3, 5]
///
/// `by_rank[r]` is what rank r of the process set announced. All elements must be plausible, and they must not all be
/// equal. `job_ranks[r]` is the job's number of rank r; `job_ranks` is empty if the numbers are the same.
[[nodiscard]] Status mismatch_of(std::string_view name, std::span<const Metadata> by_rank,
                                 std::span<const std::int32_t> job_ranks = {});

/// The metadata that some ranks announced.
struct MetadataOfRanks {
    Metadata metadata;
    std::vector<std::int32_t> ranks;  ///< in ascending order; at least one rank
};
/// Like mismatch_of() above, but takes groups of ranks with equal metadata, in any order.
[[nodiscard]] Status mismatch_of(std::string_view name, std::vector<MetadataOfRanks> groups,
                                 std::span<const std::int32_t> job_ranks = {});
/// Returns the Mismatch error for an operation without a name. `call` is the number of the operation among those of its
/// process set, counted from 1. The text lists all metadata of each rank. All metadata are listed because a rank that
/// made one call too many or too few has an entirely different operation under this number.
[[nodiscard]] Status mismatch_of_unnamed(std::uint64_t call, std::vector<MetadataOfRanks> groups,
                                         std::span<const std::int32_t> job_ranks = {});
/// Returns a text such as "the 17th unnamed operation of this process set".
[[nodiscard]] std::string describe_unnamed(std::uint64_t call);
/// Whether one rank (the root) has a special role in the operation.
[[nodiscard]] bool has_root(collectives::Operation operation);
/// Returns the job's number of a rank of the process set. `job_ranks` is empty if the numbers are the same.
[[nodiscard]] inline std::int32_t rank_in_job(std::int32_t rank, std::span<const std::int32_t> job_ranks) {
    const auto index = static_cast<std::size_t>(rank);
    return rank >= 0 && index < job_ranks.size() ? job_ranks[index] : rank;
}

}  // namespace rueda::core
