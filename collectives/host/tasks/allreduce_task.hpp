// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The Rueda authors
#pragma once

#include <cstdint>
#include <vector>

#include "collectives/communicator.hpp"
#include "collectives/host/arena/segment_map.hpp"
#include "collectives/host/tasks/host_set.hpp"
#include "ops/reduce.hpp"

namespace rueda::collectives {

/// An allreduce of all segments of a batch. Each segment is processed in one of three ways, and all members choose the
/// same way:
///
/// - *inline*: every announcement contains the member's input, and each rank combines all inputs by itself.
/// - *resident*: input and output of every member lie in the arena. The segments form one range of bytes. Each member
///   combines its share directly from all inputs and writes it to all outputs. Cost per rank: reads S, writes S.
/// - *staged*: all other segments, in chunks. A rank copies those parts of its input that others combine into its cell.
///   It combines its own share from its own memory and the others' cells, and writes the result to the same places in
///   the others' cells. Then it copies the results of the others from its own cell to its output. Inputs and outputs in
///   the arena are used directly, without cells. Cells are used in turn, so a rank can stage the next chunk while
///   others combine. Cost per rank, with m members: copies S(m−1)/m out, reads S, writes S, copies S(m−1)/m in.
///
/// If the staged part of a batch is small, every rank may stage and combine all of it, so that the ranks wait for each
/// other only once instead of twice.
///
/// A member that has joined (Location::absent) has neither input nor output. It still combines its share of the
/// resident and staged segments, because the others wait for this share.
///
/// In all three ways the inputs are combined in rank order.
class AllreduceTask final : public Task {
public:
    explicit AllreduceTask(HostSet& set) : set_(set) {}

    void begin(const Batch& batch);
    StepResult step() override;
    [[nodiscard]] StepWork last_work() const override { return last_work_; }

private:
    /// A range of bytes of one segment. If the bytes are staged, they lie at the offset `in_cell` in the cells of chunk
    /// `chunk`.
    struct Piece {
        std::uint32_t segment = 0;
        std::uint64_t offset = 0;
        std::uint64_t bytes = 0;
        std::uint64_t chunk = 0;
        std::uint64_t in_cell = 0;
    };
    [[nodiscard]] bool is_resident(std::span<const Location> locations) const;
    void combine(const Piece& piece, bool for_all) const;

    void step_inline();
    StepResult step_resident();
    void reduce_resident(Range range) const;

    StepResult step_staged();
    [[nodiscard]] Range chunk(std::uint64_t index) const;
    [[nodiscard]] bool may_stage() const;
    void stage(std::uint64_t index);
    void reduce_chunk(std::uint64_t index) const;
    void fetch(std::uint64_t index);

    HostSet& set_;
    Batch batch_;

    std::vector<std::uint32_t> inline_;  // segments
    std::size_t inline_done_ = 0;        // how many of these segments are combined

    SegmentMap resident_;
    Range my_resident_share_;
    std::uint64_t resident_done_ = 0;  // this rank has combined its share up to this offset in the virtual range
    bool resident_published_ = false;

    SegmentMap staged_;
    std::uint64_t chunk_bytes_ = 0;
    std::uint64_t chunk_count_ = 0;
    std::uint64_t staged_chunks_ = 0;
    std::uint64_t reduced_chunks_ = 0;
    std::uint64_t fetched_chunks_ = 0;
    bool whole_ = false;
    StepWork last_work_ = StepWork::none;
};

}  // namespace rueda::collectives
