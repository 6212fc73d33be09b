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
#include "core/negotiation/tree_messages.hpp"
#include "core/pending/tensor_table.hpp"
#include "core/process_set/batches/announced.hpp"
#include "core/process_set/batches/row_outputs.hpp"
#include "core/process_set/common/set_view.hpp"

namespace rueda::core {

/// A batch of operations that the log has called, in the form that a communicator executes. Operations are added one by
/// one, each with the announcements of the ranks. The batch's task uses the memory of this object until the next
/// begin().
///
/// Threads: the thread that drives progress. Every failure ends the job: a rank is faulty, or memory has run out.
class CalledBatch {
public:
    using Call = Log<base::StdAtomics>::Entry;

    /// All arguments must outlive this object.
    CalledBatch(const SetView& view, const Announced& announced, const RowOutputs& outputs)
        : view_(view), announced_(announced), outputs_(outputs) {}

    /// Begins an empty batch for the log positions from `begin` to before `end`.
    void begin(std::uint64_t begin, std::uint64_t end);
    /// Adds the pending operation `entry`. `called` is the log entry at `position` that calls the operation.
    [[nodiscard]] Status add(TensorEntry& entry, const Call& called, std::uint64_t position);

    /// The batch's first position in the log.
    [[nodiscard]] std::uint64_t position() const { return begin_; }
    // The functions from entries() to operation() require a batch that is not empty.
    [[nodiscard]] std::span<TensorEntry* const> entries() const { return entries_; }
    [[nodiscard]] TensorEntry& first() const { return *entries_.front(); }
    [[nodiscard]] collectives::Operation operation() const {
        return static_cast<collectives::Operation>(first().request.metadata.operation);
    }
    /// Whether the tensors are in device memory. In one batch, either all tensors are in device memory or none is.
    [[nodiscard]] bool is_on_device() const { return core::is_on_device(first().request.metadata); }
    /// For an alltoall, a gather or a scatter: writes to `splits` how many rows this rank sends to each member, and
    /// then how many rows it receives from each member. Otherwise `splits` becomes empty.
    void own_splits(std::vector<std::int64_t>& splits) const;
    /// The batch in the communicator's form. Valid until the next begin().
    [[nodiscard]] collectives::Batch for_communicator() const {
        return {operation(), segments_, locations_, splits_, rows_};
    }

    /// For an operation of variable size: the number of members of the set, on all hosts.
    [[nodiscard]] std::size_t members() const { return rows_.size(); }
    /// Returns the first dimension that the member announced. Returns nothing if the member has joined.
    [[nodiscard]] std::optional<std::int64_t> rows_of(std::size_t member) const {
        return rows_[member] == kJoinedRows ? std::nullopt : std::optional(rows_[member]);
    }

    /// The exchange of splits, for an alltoall or a scatter on several hosts: before the data, every rank tells every
    /// other rank how many rows it will send.
    struct Splits {
        std::span<const std::int64_t> to;  ///< the number of rows that this rank sends to each member
        std::span<std::int64_t> from;  ///< the numbers of rows that come from each member; the communicator fills this
    };
    [[nodiscard]] Splits begin_splits();
    /// Call this when the communicator has filled Splits::from. Afterwards the batch can be executed.
    [[nodiscard]] Status take_splits();

    /// Frees the memory. Call this when no further batch will begin.
    void release();

private:
    [[nodiscard]] Status add_segment(TensorEntry& entry, const Call& called);
    [[nodiscard]] Status read_rows(std::uint32_t attachment);
    [[nodiscard]] Status complete_rows(const TensorEntry& entry);
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
    std::vector<collectives::Segment> segments_;    // one for each entry
    std::vector<collectives::Location> locations_;  // for each segment, the locations of the members of this host
    std::vector<std::int64_t> rows_;    // for each member: its first dimension, in an operation of variable size
    std::vector<std::int64_t> splits_;  // the splits of an alltoall, a gather or a scatter
};

}  // namespace rueda::core
