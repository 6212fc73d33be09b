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

/// Where the result of an operation of variable size goes: to the caller's output if there is one, else to memory that
/// belongs to the operation's completion. The number of rows is known only when all members have announced.
///
/// Threads: the thread that drives progress.
class RowOutputs {
public:
    /// `rank` is this member's number in the set.
    RowOutputs(const SetIdentity& identity, std::uint32_t rank) : ranks_(identity.ranks), rank_(rank) {}

    /// The output of a reducescatter.
    [[nodiscard]] Result<std::byte*> of_share(TensorEntry& entry) const;
    /// The output of an allgather, or of a gather on its root: room for the rows of all members. `rows_of` is indexed
    /// by member.
    [[nodiscard]] Result<std::byte*> of_gathered(TensorEntry& entry, std::span<const std::int64_t> rows_of) const;
    /// The output of a gather: on its root the same, and the root also learns how many rows each member gave. Null on
    /// other ranks.
    [[nodiscard]] Result<std::byte*> on_root(TensorEntry& entry, std::span<const std::int64_t> rows_of) const;
    /// The output for `rows` rows, of which `rows_before` come before this rank's own. If the caller's output does not
    /// fit, the operation fails on this rank only. The others have announced the operation and count on this rank, so
    /// it takes part and keeps nothing (null).
    [[nodiscard]] Result<std::byte*> of_all(TensorEntry& entry, std::int64_t rows, std::int64_t rows_before) const;

private:
    [[nodiscard]] static Result<std::byte*> allocate(TensorEntry& entry, std::int64_t rows);

    std::span<const int> ranks_;  // the job's ranks, by member
    std::uint32_t rank_;
};

}  // namespace rueda::core
