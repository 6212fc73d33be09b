// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The Rueda authors
#pragma once

#include <cstdint>
#include <vector>

#include "collectives/communicator.hpp"
#include "collectives/host/arena/segment_map.hpp"
#include "collectives/host/tasks/host_set.hpp"
#include "collectives/host/tasks/inline_segments.hpp"
#include "ops/groups.hpp"

namespace rueda::collectives {

/// An allreduce in which only one partial result per NUMA node crosses between nodes, for batches that are large
/// enough. Inputs that travelled with the announcements are combined by each rank itself. Everything else, staged or
/// resident, goes in chunks. Each chunk has four phases (docs/design/collectives.md, "NUMA nodes", has a drawing):
///
/// - *stage*: a rank copies to its cell what the other members of its node combine; inputs in the arena are read there.
/// - *combine*: each of the s members of a node has an s-th of the chunk, its *part*. It combines its node's inputs of
///   this part to the node's partial result, in its own cell.
/// - *across*: each of all m members has an m-th of the chunk, its *final share*. It combines the h nodes' partial
///   results of this share. The result replaces each of these partial results, and goes to the rank's own output.
/// - *fetch*: a rank copies everything else from the cells of its node.
///
/// Cost per rank for S bytes, if all nodes have the same number of ranks: it copies S(s−1)/s out, reads S and writes
/// S/s; then it reads hS/m and writes (h+1)S/m, of which (h−1)S/m in each direction cross between nodes; then it copies
/// S(m−1)/m in.
class NumaAllreduceTask final : public Task {
public:
    explicit NumaAllreduceTask(HostSet& set);

    /// Whether this task should run the batch, which is an allreduce; otherwise AllreduceTask gives the same bits. The
    /// answer is the same on all members. It is false if some members are absent.
    [[nodiscard]] bool suits(const Batch& batch) const;
    void begin(const Batch& batch);
    StepResult step() override;

private:
    /// A piece of a final share in which the partial result of each node lies with one member.
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
    std::uint32_t node_ = 0;  // this rank's node
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
