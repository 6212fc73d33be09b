// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The Rueda authors
#pragma once

#include <cstdint>
#include <random>
#include <vector>

#include "rueda/types.hpp"

namespace rueda::tests {

enum class Kind {
    allreduce,
    grouped,
    adasum,
    broadcast,
    allgather,
    gather,
    scatter,
    alltoall,
    reducescatter,
    reduce,
    message,  ///< sent to the next member, and received from the previous member
    mismatch,
};

/// An operation that all ranks draw. The draw does not depend on the rank.
struct Draw {
    Kind kind = Kind::allreduce;
    DType dtype = DType::float32;
    ReduceOp op = ReduceOp::sum;
    std::int64_t rows = 0;     ///< the number of rows, if it is the same for all members; else see rows_of()
    std::int64_t columns = 1;  ///< elements of a row
    std::size_t set = 0;       ///< index into the sets
    std::uint32_t salt = 0;    ///< makes its values differ from those of other operations
    bool blocking = false;
    Compression compression = Compression::none;  ///< compression of an allreduce, or of a group of allreduces

    /// The number of rows of a member in an allgather or alltoall. It differs between members and is sometimes 0.
    [[nodiscard]] std::int64_t rows_of(int member) const { return (rows + member * 5 + salt) % (rows + 3); }
};

/// `sets` is the number of sets from which the set of the operation is drawn.
[[nodiscard]] Draw draw_operation(std::mt19937& random, std::size_t sets);

/// The value of `rank` at `index`: a small whole number. Sums of such values over the ranks are exact in every dtype,
/// also in 16-bit ones. For products the values are 1 and 2; for bool they are 0 and 1.
[[nodiscard]] inline int value_at(const Draw& draw, int rank, std::int64_t index) {
    const auto mixed = static_cast<int>((index * 3 + rank * 7 + draw.salt) % 5);
    return draw.dtype == DType::boolean ? mixed % 2 : draw.op == ReduceOp::product ? 1 + mixed % 2 : mixed;
}

/// Draws different subsets of 0 … size − 1. No subset is empty, and none contains all numbers. If there are fewer than
/// `count` such subsets, returns fewer.
[[nodiscard]] std::vector<std::vector<std::int32_t>> draw_sets(std::mt19937& random, int size, std::size_t count);

}  // namespace rueda::tests
