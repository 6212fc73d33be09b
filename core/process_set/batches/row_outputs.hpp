// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The Rueda authors
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

#include "base/status.hpp"
#include "core/pending/set_identity.hpp"
#include "core/pending/tensor_table.hpp"

namespace rueda::core {

/// Chooses the memory for the result of an operation of variable size: the caller's output if there is one, otherwise
/// memory that the operation's completion owns. The number of rows is known only after all members have announced.
///
/// Threads: the thread that drives progress.
class RowOutputs {
public:
    /// `rank` is this rank's number in the process set.
    RowOutputs(const SetIdentity& identity, std::uint32_t rank) : ranks_(identity.ranks), rank_(rank) {}

    /// The output of a reducescatter.
    [[nodiscard]] Result<std::byte*> of_share(TensorEntry& entry) const;
    /// The output of an allgather, or of a gather on its root. The output holds the rows of all members. `rows_of[m]`
    /// is the number of rows of member m.
    [[nodiscard]] Result<std::byte*> of_gathered(TensorEntry& entry, std::span<const std::int64_t> rows_of) const;
    /// The output of a gather. On the root, also stores in the completion how many rows each member gave. Null on the
    /// other ranks.
    [[nodiscard]] Result<std::byte*> on_root(TensorEntry& entry, std::span<const std::int64_t> rows_of) const;
    /// Returns the output for `rows` rows. This rank's own rows come after the first `rows_before` rows. If the
    /// caller's output has the wrong size, the operation fails on this rank, and the result is null. Even so, this rank
    /// takes part in the operation without storing a result, because the other ranks need its input.
    [[nodiscard]] Result<std::byte*> of_all(TensorEntry& entry, std::int64_t rows, std::int64_t rows_before) const;

private:
    [[nodiscard]] static Result<std::byte*> allocate(TensorEntry& entry, std::int64_t rows);

    std::span<const int> ranks_;  // for each member: its rank in the job
    std::uint32_t rank_;
};

}  // namespace rueda::core
