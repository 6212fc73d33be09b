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

/// Everything about an operation on a tensor that the members of a process set must agree on. Lies in the arena, so
/// fixed-width. What may differ between ranks by right (the first dimension of an allgather or alltoall) is not in
/// here: its extent is kAnyExtent.
struct Metadata {
    static constexpr std::int64_t kAnyExtent = -1;

    std::uint8_t operation = 0;  ///< collectives::Operation
    std::uint8_t dtype = 0;      ///< DType
    std::uint8_t reduce_op = 0;  ///< ReduceOp; 0 where the operation has none
    std::uint8_t ndim = 0;
    std::int32_t root = 0;              ///< 0 where the operation has none
    std::int32_t process_set = 0;       ///< id
    std::uint16_t compression = 0;      ///< Compression
    std::uint16_t root_is_foreign = 0;  ///< 1: no rank of the set is meant; `root` is the number that the caller gave
    double prescale = 1.0;
    double postscale = 1.0;
    std::int64_t shape[RUEDA_MAX_DIMENSIONS] = {};  ///< `ndim` extents, then zeros
};
static_assert(sizeof(Metadata) == 160 && std::is_trivially_copyable_v<Metadata>);

/// Whether two ranks mean the same. Scale factors are compared by their bits: a NaN agrees with itself.
[[nodiscard]] bool agree(const Metadata& a, const Metadata& b);

/// A hash of all fields, for unnamed operations.
[[nodiscard]] std::uint64_t signature_of(const Metadata& metadata);

/// Bytes of the tensor; where the first dimension is any, of one row.
[[nodiscard]] std::uint64_t bytes_of(const Metadata& metadata);

/// Of an operation that reduces; the divisor is the caller's to set.
[[nodiscard]] inline ops::Reduction reduction_of(const Metadata& metadata) {
    return {.dtype = static_cast<DType>(metadata.dtype),
            .op = static_cast<ReduceOp>(metadata.reduce_op),
            .prescale = metadata.prescale,
            .postscale = metadata.postscale};
}

/// Whether values can be compressed between hosts: of an allreduce of float32 or float64 whose sums are not Adasum's.
[[nodiscard]] constexpr bool may_compress(const Metadata& metadata) {
    const auto dtype = static_cast<DType>(metadata.dtype);
    return metadata.operation == static_cast<std::uint8_t>(collectives::Operation::allreduce) &&
           (dtype == DType::float32 || dtype == DType::float64) &&
           metadata.reduce_op != static_cast<std::uint8_t>(ReduceOp::adasum);
}

/// False for bytes that no working rank writes: unknown enumerators, too many dimensions, negative extents. What no
/// rank can do is announced all the same: is_possible() (impossible.hpp).
[[nodiscard]] bool is_plausible(const Metadata& metadata);

/// The error for all members: what differs, and which ranks have which value.
///
///     tensor 'layer1.weight': the ranks disagree about the shape: ranks 0-2: [3, 4]; rank 3: [3, 5]
///
/// `by_rank[r]` is what rank r announced; all plausible, and not all alike. `job_ranks`: what people call the ranks of
/// a process set, by rank; empty: the same.
[[nodiscard]] Status mismatch_of(std::string_view name, std::span<const Metadata> by_rank,
                                 std::span<const std::int32_t> job_ranks = {});

/// What some ranks announced.
struct MetadataOfRanks {
    Metadata metadata;
    std::vector<std::int32_t> ranks;  ///< ascending, at least one
};
/// The same text, from groups of ranks in any order.
[[nodiscard]] Status mismatch_of(std::string_view name, std::vector<MetadataOfRanks> groups,
                                 std::span<const std::int32_t> job_ranks = {});
/// The same of an operation without a name, the `call`-th of its process set, from 1 on. Says all of what each rank
/// means: where one has made a call more or less than the others, it is another operation altogether.
[[nodiscard]] Status mismatch_of_unnamed(std::uint64_t call, std::vector<MetadataOfRanks> groups,
                                         std::span<const std::int32_t> job_ranks = {});
/// "the 17th unnamed operation of this process set".
[[nodiscard]] std::string describe_unnamed(std::uint64_t call);
/// Whether one of its ranks is special.
[[nodiscard]] bool has_root(collectives::Operation operation);
/// What people call the rank.
[[nodiscard]] inline std::int32_t rank_in_job(std::int32_t rank, std::span<const std::int32_t> job_ranks) {
    const auto index = static_cast<std::size_t>(rank);
    return rank >= 0 && index < job_ranks.size() ? job_ranks[index] : rank;
}

}  // namespace rueda::core
