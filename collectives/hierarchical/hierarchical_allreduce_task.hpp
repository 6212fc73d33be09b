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

/// An allreduce of all segments (tensors) of a batch. The class also runs reduce, in which only the root keeps the
/// result, and reducescatter, in which each rank keeps only its rows.
///
/// A *lane* is a rank that sends and receives for its host. Each lane has a share of every chunk (NetworkChunks). A
/// chunk goes through a host in *pieces*. A piece is as much of each lane's share as fits into the *cells*, the ranks'
/// buffers in shared memory. One piece has these phases:
///
///     stage    every rank   copies its input for the other lanes   → first half of its own cells
///     combine  every lane   combines its part of all ranks' inputs → its LanePipeline       (in rank order)
///     deliver  every lane   copies its part of the result          → its own output, and second half of its own cells
///     fetch    every rank   copies the other lanes' parts          → its output
///
/// Between combine and deliver, the piece crosses the network. The two halves of the cells are used independently, so
/// every phase waits only for earlier pieces, and no circular wait can arise. Tensors in the host's shared memory (the
/// arena) are not staged: lanes read their inputs and write their results in place. On a host with one rank, nothing
/// goes through cells. A tensor is compressed only when it has been combined. So its inputs lie in the cells
/// uncompressed, but its result lies there compressed. All ranges and offsets count the bytes that are sent over the
/// network; for a compressed tensor, these are the compressed bytes.
///
/// A rank that has called join() (Location::absent) stages and fetches nothing. If it is a lane, it still combines the
/// inputs of the other ranks. If all ranks of its host have called join(), it sends neutral elements.
///
/// Cost per rank for S bytes, with m ranks and l lanes on the host: it copies S bytes to the cells, combines S × m/l
/// bytes, and copies S bytes from the cells.
class HierarchicalAllreduceTask final : public Task {
public:
    explicit HierarchicalAllreduceTask(HierarchicalSet& set);

    void begin(const Batch& batch);
    StepResult step() override;

private:
    /// A position in the order of all pieces.
    struct Cursor {
        std::uint64_t number = 0;  ///< the piece's number, counted within this batch
        std::uint64_t chunk_index = 0;
        std::uint64_t piece = 0;  ///< the piece's number, counted within the chunk
        NetworkChunks::Chunk chunk;
        std::uint64_t pieces = 0;  ///< pieces in the chunk
    };

    void plan_cells();
    void plan_pieces();
    void go_to_chunk(Cursor& cursor, std::uint64_t index) const;
    void advance(Cursor& cursor) const;
    [[nodiscard]] bool is_at_end(const Cursor& cursor) const { return cursor.chunk_index == chunk_count_; }
    [[nodiscard]] Range part(const Cursor& cursor, std::uint32_t lane) const;
    /// The number of the piece at `cursor`, counted over all batches.
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
    /// Returns null if the member's input is not in the host's shared memory. The arguments `offset` and `bytes` of the
    /// functions below count bytes as they cross the network.
    [[nodiscard]] const std::byte* resident_input(std::uint32_t segment, std::uint32_t member) const;
    [[nodiscard]] bool wants_result(std::uint32_t segment, std::uint32_t member) const;
    [[nodiscard]] bool writes_directly(std::uint32_t segment, std::uint32_t member) const;
    [[nodiscard]] const std::byte* own_input(std::uint32_t segment, std::uint64_t offset, std::uint64_t bytes);
    static void reduce_present(const ops::Reduction& reduction, std::span<const std::byte* const> sources,
                               std::byte* to, std::uint64_t count);
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
    std::vector<PartialReduction> reductions_;  // indexed by segment (tensor)
    std::uint64_t chunk_count_ = 0;
    std::vector<std::byte> own_words_;  // a piece of this rank's input, as words (int64 values) for exact sums
    std::vector<std::byte> combined_;   // a combined piece that is not compressed yet

    std::uint64_t place_bytes_ = 0;  // the size in bytes of a place, a buffer in shared memory
    std::uint64_t piece_bytes_ = 0;  // how many bytes one lane sends to other hosts at one time, in this batch
    // The largest ratio, in this batch, of an element's size in shared memory to its size between hosts.
    std::uint64_t staged_ratio_ = 1;
    std::uint64_t staging_places_ = 0;   // the number of places (buffers) in the first half of a rank's shared memory,
                                         // which is for inputs
    std::uint64_t delivery_places_ = 0;  // the number of places (buffers) in the second half of a rank's shared memory,
                                         // which is for results

    Cursor staging_;
    Cursor combining_;
    Cursor delivering_;
    Cursor fetching_;
    std::uint64_t work_ = 0;  // bytes moved in this step
};

}  // namespace rueda::collectives
