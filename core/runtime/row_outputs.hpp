// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The Rueda authors
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

#include "base/status.hpp"
#include "core/runtime/set_identity.hpp"
#include "core/runtime/tensor_table.hpp"

namespace rueda::core {

/// Where the result of an operation by rows goes: to the caller's output where he gave one, else to memory that belongs
/// to the operation's completion. How many rows it has, and of how many, is known when all have announced.
///
/// Threads: who holds the rank's crank.
class RowOutputs {
public:
    /// Of member `rank` of the set.
    RowOutputs(const SetIdentity& identity, std::uint32_t rank) : ranks_(identity.ranks), rank_(rank) {}

    /// Of a reducescatter.
    [[nodiscard]] Result<std::byte*> of_share(TensorEntry& entry) const;
    /// Of an allgather, and of a gather's root: room for the rows of all members, `rows_of` by member.
    [[nodiscard]] Result<std::byte*> of_gathered(TensorEntry& entry, std::span<const std::int64_t> rows_of) const;
    /// Of a gather: the same on its root, which hears who gave how many; on other ranks null.
    [[nodiscard]] Result<std::byte*> on_root(TensorEntry& entry, std::span<const std::int64_t> rows_of) const;
    /// Of `rows` rows, with `rows_before` of them before this rank's own. A caller's output that does not fit fails the
    /// operation on this rank alone: the others have announced theirs and count on this rank's part, so it takes part,
    /// and keeps nothing (null).
    [[nodiscard]] Result<std::byte*> of_all(TensorEntry& entry, std::int64_t rows, std::int64_t rows_before) const;

private:
    [[nodiscard]] static Result<std::byte*> allocate(TensorEntry& entry, std::int64_t rows);

    std::span<const int> ranks_;  // of the job, by member
    std::uint32_t rank_;
};

}  // namespace rueda::core
