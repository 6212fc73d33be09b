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
    message,  ///< sent to the next member and received from the previous one
    mismatch,
};

/// A random operation, which is the same on all ranks.
struct Draw {
    Kind kind = Kind::allreduce;
    DType dtype = DType::float32;
    ReduceOp op = ReduceOp::sum;
    std::int64_t rows = 0;     ///< the number of rows, if all members have the same; otherwise see rows_of()
    std::int64_t columns = 1;  ///< number of elements of a row
    std::size_t set = 0;       ///< index of the process set
    std::uint32_t salt = 0;    ///< distinguishes the values from those of other operations
    bool blocking = false;
    Compression compression = Compression::none;  ///< compression of an allreduce, or of a group of allreduces

    /// Returns a member's number of rows in an allgather or alltoall. Members have different numbers, sometimes 0.
    [[nodiscard]] std::int64_t rows_of(int member) const { return (rows + member * 5 + salt) % (rows + 3); }
};

/// Draws an operation in one of `sets` process sets.
[[nodiscard]] Draw draw_operation(std::mt19937& random, std::size_t sets);

/// Returns a rank's value at an index: a small integer. Sums over the ranks are exact in every type, even in 16 bits.
/// Products have the values 1 and 2, and bool has 0 and 1.
[[nodiscard]] inline int value_at(const Draw& draw, int rank, std::int64_t index) {
    const auto mixed = static_cast<int>((index * 3 + rank * 7 + draw.salt) % 5);
    return draw.dtype == DType::boolean ? mixed % 2 : draw.op == ReduceOp::product ? 1 + mixed % 2 : mixed;
}

/// Draws up to `count` different subsets of 0 … size − 1. Each subset has some but not all numbers.
[[nodiscard]] std::vector<std::vector<std::int32_t>> draw_sets(std::mt19937& random, int size, std::size_t count);

}  // namespace rueda::tests
