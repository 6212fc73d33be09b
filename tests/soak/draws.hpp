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
    message,  ///< to the next member, and from the one before
    mismatch,
};

/// An operation, drawn alike on all ranks. Nothing in it depends on who draws.
struct Draw {
    Kind kind = Kind::allreduce;
    DType dtype = DType::float32;
    ReduceOp op = ReduceOp::sum;
    std::int64_t rows = 0;     ///< of a member whose number of rows is as others'; see rows_of()
    std::int64_t columns = 1;  ///< elements of a row
    std::size_t set = 0;       ///< index into the sets
    std::uint32_t salt = 0;    ///< what makes its values others than the last one's
    bool blocking = false;
    Compression compression = Compression::none;  ///< of an allreduce or a group of them

    /// Rows of an allgather's or alltoall's member: others for each, sometimes none.
    [[nodiscard]] std::int64_t rows_of(int member) const { return (rows + member * 5 + salt) % (rows + 3); }
};

/// `sets`: how many there are to draw from.
[[nodiscard]] Draw draw_operation(std::mt19937& random, std::size_t sets);

/// What `rank` has at `index`: small whole numbers, whose sums over ranks are exact in every dtype, 16-bit ones too;
/// products are those of ones and twos; of bool, zeros and ones.
[[nodiscard]] inline int value_at(const Draw& draw, int rank, std::int64_t index) {
    const auto mixed = static_cast<int>((index * 3 + rank * 7 + draw.salt) % 5);
    return draw.dtype == DType::boolean ? mixed % 2 : draw.op == ReduceOp::product ? 1 + mixed % 2 : mixed;
}

/// Subsets of 0 … size − 1 without duplicates among them, none of them empty or all; fewer where there are no more.
[[nodiscard]] std::vector<std::vector<std::int32_t>> draw_sets(std::mt19937& random, int size, std::size_t count);

}  // namespace rueda::tests
