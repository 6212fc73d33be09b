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

/// An allreduce of all segments of a batch. Each segment goes one of three ways, and all members choose the same way:
///
/// - *inline*: the input travelled with every announcement; each rank combines all of them by itself.
/// - *resident*: input and output of every member lie in the arena. The segments form one range of bytes. Each member
///   combines its share directly from all inputs and writes it to all outputs. Cost per rank: reads S, writes S.
/// - *staged*: everything else, in chunks. A rank copies the parts of its input that others combine into its cell
///   (parts that lie in the arena are read from there). It combines its own share from its own memory and the others'
///   cells, and leaves the result in the same places of the others' cells (outputs in the arena are written directly).
///   Then it fetches from its own cell what the others left there. Cells are used in turn, so the staging of the next
///   chunk overlaps with the others' combining. Cost per rank, with m members: copies S(m−1)/m out, reads S, writes S,
///   copies S(m−1)/m in.
///
/// If the staged part of a batch is small, every rank may stage and combine all of it, which saves one of the two
/// waits.
///
/// A member that has joined (Location::absent) has neither input nor output. It still combines its share of what is
/// resident or staged, because the others wait for that.
///
/// In every way the inputs are combined in rank order.
class AllreduceTask final : public Task {
public:
    explicit AllreduceTask(HostSet& set) : set_(set) {}

    void begin(const Batch& batch);
    StepResult step() override;

private:
    /// Some bytes of one segment. What is staged lies at `in_cell` of the cells of chunk `chunk`.
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
    std::size_t inline_done_ = 0;        // the number of them that are combined

    SegmentMap resident_;
    Range my_resident_share_;
    std::uint64_t resident_done_ = 0;  // this rank's share is combined up to this offset in the virtual range
    bool resident_published_ = false;

    SegmentMap staged_;
    std::uint64_t chunk_bytes_ = 0;
    std::uint64_t chunk_count_ = 0;
    std::uint64_t staged_chunks_ = 0;
    std::uint64_t reduced_chunks_ = 0;
    std::uint64_t fetched_chunks_ = 0;
    bool whole_ = false;
};

}  // namespace rueda::collectives
