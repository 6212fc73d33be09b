// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The Rueda authors
#pragma once

#include <array>
#include <cstdint>

#include "base/shared_memory/control_block.hpp"
#include "collectives/communicator.hpp"
#include "collectives/host/arena/segment_map.hpp"
#include "collectives/host/tasks/host_set.hpp"
#include "ops/reduce.hpp"

namespace rueda::collectives {

/// Reducescatter and alltoall on one host: every member's input has a part for each member. In a reducescatter, a
/// member combines all parts that are for this member. In an alltoall, a member copies these parts to its output, one
/// after the other. A scatter is an alltoall in which only the root has rows. In a gather and a reduce, all parts are
/// for the root. A batch has one segment.
///
/// An input in the announcement or in the arena (shared memory) is read in place. A rank with a private input copies
/// the parts for other members to its cells, which are buffers in the arena. A chunk contains a piece of every part.
/// All pieces of a chunk have the same length, so that all members have work in each chunk. A cell holds one piece for
/// every other member. Cost per rank for S bytes of input, with m members: the rank copies S(m−1)/m bytes to its cells
/// (if the input is private), and reads the parts that are for this rank from all inputs.
class ScatterTask final : public Task {
public:
    explicit ScatterTask(HostSet& set) : set_(set) {}

    void begin(const Batch& batch);
    StepResult step() override;

private:
    using Parts = std::array<Range, base::kMaxLocalRanks>;

    [[nodiscard]] std::uint64_t plan();
    [[nodiscard]] std::uint64_t plan_reduce();
    [[nodiscard]] std::uint64_t plan_reducescatter();
    [[nodiscard]] std::uint64_t plan_alltoall();
    [[nodiscard]] std::uint32_t pieces_in_cell() const;
    [[nodiscard]] std::uint64_t largest_piece_bytes() const;
    /// The piece of `part` that is in chunk `index`.
    [[nodiscard]] Range piece(Range part, std::uint64_t index) const;
    [[nodiscard]] bool all_is_for_root() const {
        return batch_.operation == Operation::gather || batch_.operation == Operation::reduce;
    }
    [[nodiscard]] bool is_staged(std::uint32_t member) const;
    /// The address of the piece that `from` sends to `to`, in a buffer of `from` in shared memory.
    [[nodiscard]] std::byte* in_cell(std::uint32_t from, std::uint32_t to, std::uint64_t index) const;

    [[nodiscard]] bool may_stage() const;
    void stage(std::uint64_t index);
    [[nodiscard]] bool may_take() const;
    void take(std::uint64_t index);
    void reduce(std::uint64_t index);
    void copy_own();
    void copy(std::uint64_t index);
    [[nodiscard]] const std::byte* source(std::uint32_t member, std::uint64_t index) const;
    void publish_taken();

    HostSet& set_;
    Batch batch_;
    Parts to_{};    // indexed by member: the part for that member, as a range in this rank's input
    Parts from_{};  // indexed by member: the part for this rank, as a range in that member's input
    std::uint64_t piece_bytes_ = 0;
    std::uint64_t chunk_count_ = 0;
    std::uint64_t staged_chunks_ = 0;
    std::uint64_t taken_chunks_ = 0;
    Range own_;  // what this rank still has to copy from its own input to its output, as a range in the input
    bool somebody_stages_ = false;
    bool others_read_my_input_ = false;
    ops::Store store_ = ops::Store::cached;
};

}  // namespace rueda::collectives
