// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The Rueda authors
#pragma once

#include <cstdint>
#include <vector>

#include "collectives/communicator.hpp"
#include "collectives/host/host_set.hpp"
#include "collectives/host/inline_segments.hpp"
#include "collectives/host/segment_map.hpp"
#include "ops/groups.hpp"

namespace rueda::collectives {

/// An allreduce of which one partial result a NUMA node crosses between nodes, for batches that are worth it. What
/// travelled with the announcements each rank combines by itself; everything else, staged or resident, goes in chunks,
/// each in four phases (docs/design/collectives.md, "NUMA nodes", has a drawing):
///
///  - *stage*: a rank copies to its cell what the other members of its node combine; what lies in the arena is read
///  there.
///  - *combine*: of a chunk each of the s members of a node has an s-th, its *part*, and combines its node's inputs
///  there
///    to the node's partial result, in its own cell.
///  - *across*: of all m members each has an m-th, its *final share*, and combines the h partial results there. The
///  result
///    goes over each of them, and to the rank's own output.
///  - *fetch*: a rank copies everything else from the cells of its node.
///
/// Per rank and S bytes, for even nodes: copies S(s−1)/s out, reads S and writes S/s; reads hS/m and writes (h+1)S/m,
/// of which (h−1)S/m each way between nodes; copies S(m−1)/m in.
class NumaAllreduceTask final : public Task {
public:
    explicit NumaAllreduceTask(HostSet& set);

    /// Whether the batch, an allreduce, is for this task; if not, AllreduceTask gives the same bits. The same answer on
    /// all members. Not where some are absent.
    [[nodiscard]] bool suits(const Batch& batch) const;
    void begin(const Batch& batch);
    StepResult step() override;

private:
    /// Of a final share: where every node's partial result lies with one member.
    struct Stretch {
        Range range;
        std::array<std::uint32_t, base::kMaxLocalRanks> owners;  ///< by node
    };

    [[nodiscard]] bool suits_large(const Batch& batch) const;
    [[nodiscard]] Range chunk(std::uint64_t index) const;
    [[nodiscard]] Range part_of(std::uint32_t member, Range all) const;
    [[nodiscard]] Range final_share(Range all) const;
    [[nodiscard]] Stretch stretch_at(std::uint64_t begin, Range all) const;

    [[nodiscard]] bool may_stage() const;
    void stage(std::uint64_t index);
    [[nodiscard]] bool may_combine() const;
    void combine(std::uint64_t index);
    [[nodiscard]] bool may_go_across() const;
    void across(std::uint64_t index);
    void across(const Stretch& stretch, std::byte* const* cells, Range all);
    [[nodiscard]] bool may_fetch() const;
    void fetch(std::uint64_t index);

    HostSet& set_;
    std::uint32_t node_ = 0;  // mine
    Batch batch_;
    InlineSegments inline_;

    SegmentMap map_;
    std::uint64_t chunk_bytes_ = 0;
    std::uint64_t chunk_count_ = 0;
    std::uint64_t staged_chunks_ = 0;
    std::uint64_t combined_chunks_ = 0;
    std::uint64_t reduced_chunks_ = 0;
    std::uint64_t fetched_chunks_ = 0;
};

}  // namespace rueda::collectives
