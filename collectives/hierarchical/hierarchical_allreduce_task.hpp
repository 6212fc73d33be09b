// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The Rueda authors
#pragma once

#include <array>
#include <cstdint>
#include <span>
#include <vector>

#include "collectives/communicator.hpp"
#include "collectives/hierarchical/hierarchical_set.hpp"
#include "collectives/hierarchical/lane_pipeline.hpp"
#include "collectives/hierarchical/network_chunks.hpp"
#include "collectives/hierarchical/partial_reduction.hpp"

namespace rueda::collectives {

/// An allreduce of all segments of a batch, or a reducescatter, of which each rank keeps its rows.
///
/// A chunk (NetworkChunks) goes through a host in *pieces*, of each lane's share so many bytes as its cells have room
/// for. Of one piece:
///
///     stage    every rank   its input for the other lanes      → its own cells, the first half of them
///     combine  every lane   its part of all ranks' inputs      → its LanePipeline       (in rank order)
///     deliver  every lane   its part of the result             → its own output, its own cells, the second half
///     fetch    every rank   the other lanes' parts of it       → its output
///
/// with the network between combine and deliver. The two halves of the cells are used in turn, each by itself, so that
/// every phase of a piece waits for pieces before it only, and nothing waits in a circle. What lies in the arena is not
/// staged but read there, and results are written there by the lane; of a host of one rank nothing goes through cells.
/// A compressed tensor is staged and combined as it is, and its result lies in the cells as it has crossed; ranges and
/// offsets are those of what crosses.
/// A rank that has joined (Location::absent) stages and fetches nothing; as a lane it combines the others' inputs, and
/// where all of its host have joined, sends what changes nothing. Per rank and S bytes, m ranks and l lanes on the
/// host: copies S out, combines S × m/l, and copies S in.
class HierarchicalAllreduceTask final : public Task {
public:
    explicit HierarchicalAllreduceTask(HierarchicalSet& set);

    void begin(const Batch& batch);
    StepResult step() override;

private:
    /// A place in the order of all pieces.
    struct Cursor {
        std::uint64_t number = 0;  ///< of the piece, in this batch
        std::uint64_t chunk_index = 0;
        std::uint64_t piece = 0;  ///< of the chunk
        NetworkChunks::Chunk chunk;
        std::uint64_t pieces = 0;  ///< the chunk has
    };

    void plan_cells();
    void plan_pieces();
    void go_to_chunk(Cursor& cursor, std::uint64_t index) const;
    void advance(Cursor& cursor) const;
    [[nodiscard]] bool is_at_end(const Cursor& cursor) const { return cursor.chunk_index == chunk_count_; }
    [[nodiscard]] Range part(const Cursor& cursor, std::uint32_t lane) const;
    /// Over all batches.
    [[nodiscard]] std::uint64_t number_of(const Cursor& cursor) const { return set_.chunks + cursor.number; }
    [[nodiscard]] bool is_lane() const { return set_.rank < set_.hosts.lanes(); }

    bool act();
    [[nodiscard]] bool end();
    bool may_stage() const;
    void stage();
    bool may_combine() const;
    void combine();
    bool may_deliver() const;
    void deliver();
    bool may_fetch() const;
    void fetch();

    [[nodiscard]] bool lanes_reached(std::atomic<std::uint64_t> Progress::*counter, std::uint64_t value) const;
    [[nodiscard]] std::byte* staged(std::uint32_t member, std::uint32_t lane, std::uint64_t number) const;
    [[nodiscard]] std::byte* delivered(std::uint32_t lane, std::uint64_t number) const;
    [[nodiscard]] const Location& location(std::uint32_t segment, std::uint32_t member) const;
    [[nodiscard]] ops::Reduction reduction(std::uint32_t segment) const {
        return batch_.segments[segment].reduction(set_.hosts.size());
    }
    /// Offsets and bytes are those of the way, here and below. Null: not in the arena.
    [[nodiscard]] const std::byte* resident_input(std::uint32_t segment, std::uint32_t member) const;
    [[nodiscard]] bool wants_result(std::uint32_t segment, std::uint32_t member) const;
    [[nodiscard]] bool writes_directly(std::uint32_t segment, std::uint32_t member) const;
    [[nodiscard]] const std::byte* own_input(std::uint32_t segment, std::uint64_t offset, std::uint64_t bytes);
    void reduce_present(const ops::Reduction& reduction, std::span<const std::byte* const> sources, std::byte* to,
                        std::uint64_t count) const;
    void load_input(std::uint32_t segment, std::uint64_t offset, std::byte* place, std::uint64_t bytes) const;
    void combine_segment(std::uint32_t segment, std::span<const std::byte* const> sources, std::byte* partial,
                         std::uint64_t bytes);
    void write_output(std::uint32_t segment, std::uint64_t offset, const std::byte* result, std::uint64_t bytes) const;
    void write_to(std::byte* output, std::uint32_t segment, std::uint64_t offset, const std::byte* result,
                  std::uint64_t bytes) const;
    [[nodiscard]] Range kept(std::uint32_t segment) const;

    HierarchicalSet& set_;
    Batch batch_;
    NetworkChunks chunks_;
    LanePipeline pipeline_;
    std::vector<PartialReduction> reductions_;  // by segment
    std::uint64_t chunk_count_ = 0;
    std::vector<std::byte> own_words_;  // a piece of my input
    std::vector<std::byte> combined_;   // a piece that is compressed next

    std::uint64_t place_bytes_ = 0;      // for a piece of one lane
    std::uint64_t piece_bytes_ = 0;      // of one lane, as they cross, in this batch
    std::uint64_t staged_ratio_ = 1;     // of this batch: the largest; so much longer a piece is in its place
    std::uint64_t staging_places_ = 0;   // in the first half of a rank's cells, each with a piece for every lane
    std::uint64_t delivery_places_ = 0;  // in the second half of a lane's

    Cursor staging_;
    Cursor combining_;
    Cursor delivering_;
    Cursor fetching_;
    std::uint64_t work_ = 0;  // bytes, in this step
};

}  // namespace rueda::collectives
