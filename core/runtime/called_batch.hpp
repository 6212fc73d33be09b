// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The Rueda authors
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <vector>

#include "base/status.hpp"
#include "collectives/communicator.hpp"
#include "core/negotiation/log.hpp"
#include "core/runtime/announced.hpp"
#include "core/runtime/row_outputs.hpp"
#include "core/runtime/set_view.hpp"
#include "core/runtime/tensor_table.hpp"

namespace rueda::core {

/// The batch that the log calls, as a communicator is to execute it: made of what each rank announced, entry by entry.
/// It stays until the next one begins, and a task of it uses its memory.
///
/// Threads: who holds the rank's crank. A failure here is what no working rank brings about, or no memory: it ends the
/// job.
class CalledBatch {
public:
    using Call = Log<base::StdAtomics>::Entry;

    /// All of them outlive this.
    CalledBatch(const SetView& view, const Announced& announced, const RowOutputs& outputs)
        : view_(view), announced_(announced), outputs_(outputs) {}

    /// A batch of these log positions; nothing is in it yet.
    void begin(std::uint64_t begin, std::uint64_t end);
    /// What `called`, at `position` of the log, calls: `entry`, which is pending.
    [[nodiscard]] Status add(TensorEntry& entry, const Call& called, std::uint64_t position);

    // Of a batch that is not empty.
    [[nodiscard]] std::span<TensorEntry* const> entries() const { return entries_; }
    [[nodiscard]] TensorEntry& first() const { return *entries_.front(); }
    [[nodiscard]] collectives::Operation operation() const {
        return static_cast<collectives::Operation>(first().request.metadata.operation);
    }
    /// For the communicator. Valid until the next begin().
    [[nodiscard]] collectives::Batch for_communicator() const {
        const std::span<const std::int64_t> rows(rows_);
        return {operation(), segments_, locations_, splits_, view_.extent().is_led() ? rows : rows.first(0)};
    }

    /// Of an operation by rows: how many members, of all hosts, have said how many rows they give.
    [[nodiscard]] std::size_t members() const { return rows_.size(); }
    /// What that member has given as its first dimension; none: it has joined.
    [[nodiscard]] std::optional<std::int64_t> rows_of(std::size_t member) const;

    /// Of an alltoall or a scatter on several hosts: every rank tells every other how many rows it gets, before the
    /// data follows.
    struct Splits {
        std::span<const std::int64_t> to;  ///< from this rank, by member
        std::span<std::int64_t> from;      ///< to be filled
    };
    [[nodiscard]] Splits begin_splits();
    /// They are filled; the batch can be executed.
    [[nodiscard]] Status take_splits();

    /// Its memory, when no batch will begin any more.
    void release();

private:
    [[nodiscard]] Status add_segment(TensorEntry& entry, const Call& called);
    [[nodiscard]] Status read_rows(std::uint32_t attachment);
    [[nodiscard]] Status prepare_output(TensorEntry& entry, std::uint32_t slot);
    [[nodiscard]] Status prepare_allgather(TensorEntry& entry);
    [[nodiscard]] Status prepare_alltoall(TensorEntry& entry, std::uint32_t slot);
    [[nodiscard]] Status prepare_gather(TensorEntry& entry);
    [[nodiscard]] Status prepare_reducescatter(TensorEntry& entry);
    [[nodiscard]] Status set_output(Result<std::byte*> output);

    SetView view_;
    const Announced& announced_;
    const RowOutputs& outputs_;
    std::uint64_t begin_ = 0;
    std::uint64_t end_ = 0;
    std::vector<TensorEntry*> entries_;
    std::vector<collectives::Segment> segments_;    // one for each
    std::vector<collectives::Location> locations_;  // for each of them, one for each member of this host
    std::vector<std::int64_t> rows_;                // first dimensions of the operation by rows, by member
    std::vector<std::int64_t> splits_;              // of the alltoall, gather or scatter
};

}  // namespace rueda::core
