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

/// Decides where the result of an operation of variable size goes: to the caller's output if there is one, otherwise to
/// memory that the operation's completion owns. The number of rows is known only when all members have announced.
///
/// Threads: the thread that drives progress.
class RowOutputs {
public:
    /// `rank` is this member's rank in the set.
    RowOutputs(const SetIdentity& identity, std::uint32_t rank) : ranks_(identity.ranks), rank_(rank) {}

    /// The output of a reducescatter.
    [[nodiscard]] Result<std::byte*> of_share(TensorEntry& entry) const;
    /// The output of an allgather, or of a gather on its root: it holds the rows of all members. `rows_of` is indexed
    /// by member.
    [[nodiscard]] Result<std::byte*> of_gathered(TensorEntry& entry, std::span<const std::int64_t> rows_of) const;
    /// The output of a gather. On the root it is as of_gathered(), and the root also learns how many rows each member
    /// gave. On other ranks it is null.
    [[nodiscard]] Result<std::byte*> on_root(TensorEntry& entry, std::span<const std::int64_t> rows_of) const;
    /// Returns the output for `rows` rows. `rows_before` of them come before this rank's own rows. If the caller's
    /// output does not fit, the operation fails on this rank only, and the function returns null: the other ranks have
    /// announced the operation and need this rank, so it takes part but stores no result.
    [[nodiscard]] Result<std::byte*> of_all(TensorEntry& entry, std::int64_t rows, std::int64_t rows_before) const;

private:
    [[nodiscard]] static Result<std::byte*> allocate(TensorEntry& entry, std::int64_t rows);

    std::span<const int> ranks_;  // for each member: its rank in the job
    std::uint32_t rank_;
};

}  // namespace rueda::core
