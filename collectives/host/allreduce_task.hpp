// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The Rueda authors
#pragma once

#include <cstdint>
#include <vector>

#include "collectives/communicator.hpp"
#include "collectives/host/host_set.hpp"
#include "collectives/host/inline_segments.hpp"
#include "collectives/host/segment_map.hpp"
#include "ops/reduce.hpp"

namespace rueda::collectives {

/// An allreduce of all segments of a batch. Each segment goes one of three ways, which all members choose alike:
///
///  - *inline*: the input travelled with every announcement; each rank combines all of them by itself.
///  - *resident*: input and output of every member lie in the arena. The segments form one range of bytes; each member
///    combines its share straight from all inputs and writes it to all outputs. Per rank: reads S, writes S.
///  - *staged*: everything else, in chunks. A rank copies the parts of its input that others combine into its cell
///    (parts that lie in the arena are read from there), combines its own share from its own memory and the others'
///    cells, leaves the result in those same places of the others' cells (outputs in the arena are written directly),
///    and fetches from its own cell what they left there. Cells are used in turn, so the staging of the next chunk
///    overlaps with the others' combining. Per rank: copies S(m−1)/m out, reads S, writes S, copies S(m−1)/m in, for m
///    members.
///
/// A batch whose staged part is small may be exchanged whole: every rank stages all of it and combines all of it, which
/// saves one of the two waits.
///
/// A member that has joined (Location::absent) has neither input nor output. It combines its share of what is resident
/// or staged all the same, as the others wait for that.
///
/// On every way the inputs are combined in the set's order (NumaNodes). Where ranks of a NUMA node combine first,
/// larger batches are for NumaAllreduceTask.
class AllreduceTask final : public Task {
public:
    explicit AllreduceTask(HostSet& set) : set_(set) {}

    void begin(const Batch& batch);
    StepResult step() override;

private:
    [[nodiscard]] bool is_resident(std::span<const Location> locations) const;

    StepResult step_resident();
    void reduce_resident(Range range) const;

    StepResult step_staged();
    [[nodiscard]] Range chunk(std::uint64_t index) const;
    [[nodiscard]] bool may_stage() const;
    void stage(std::uint64_t index);
    void reduce_share(std::uint64_t index);
    void reduce_whole(std::uint64_t index);
    void fetch(std::uint64_t index);

    HostSet& set_;
    Batch batch_;

    InlineSegments inline_;

    SegmentMap resident_;
    Range my_resident_share_;
    std::uint64_t resident_done_ = 0;  // offset in the virtual range up to which my share is combined
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
