// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The Rueda authors
#pragma once

#include <cstdint>
#include <functional>
#include <span>
#include <vector>

#include "collectives/communicator.hpp"
#include "collectives/host/arena/part_map.hpp"
#include "collectives/host/tasks/host_set.hpp"
#include "collectives/host/tasks/numbers_sum.hpp"
#include "ops/adasum.hpp"

namespace rueda::collectives {

/// Computes Adasum of the inputs of one host's ranks, for each tensor of the batch by itself (ops/adasum.hpp). The
/// first ranks of the host are the *owners*. Each owner processes one part of every tensor. The other ranks' inputs
/// reach the owners through *cells*, the ranks' buffers in shared memory. There are three phases:
///
/// - *measure*: all ranks copy their inputs to their cells, and every owner computes the dot products of its parts.
/// - *numbers*: the dot products of all owners are added, and every rank computes the weights.
/// - *combine*: all ranks copy their inputs to their cells again, and every owner computes its parts of the results.
///   The results go back through the cells to the outputs. With begin_into(), they go to the owner's memory instead.
///
/// If the cells have space for all inputs at once, the inputs are copied only once, and stay in the cells for the
/// phases measure and combine. A tensor is processed *in place* if the inputs of all ranks lie in the arena (the host's
/// shared memory). If the results go to the outputs, the outputs must also lie in the arena. The owners of such a
/// tensor work directly on this memory. The owners wait only for the dot products, and at the end for the other ranks.
///
/// Cost per rank for S bytes, if all m ranks are owners. In each of the phases measure and combine, the rank copies
/// S(m−1)/m bytes to its cells and reads S bytes. For the results, it writes S bytes and copies S(m−1)/m bytes from the
/// cells. Inputs and outputs in the arena are not copied.
///
/// Threads: only the thread that steps this rank's tasks ("drives progress") may call these functions.
class AdasumPasses {
public:
    /// `may_write(number)` must return whether this rank may write to its buffer in shared memory for chunk `number`,
    /// counted from 0 in the batch.
    using MayWrite = std::function<bool(std::uint64_t number)>;
    AdasumPasses(HostSet& set, std::uint32_t owners, MayWrite may_write);

    /// Begins a batch whose results go to the outputs. `maps` contains, for each owner, its parts of the tensors.
    /// Together the parts cover every tensor exactly once. The maps must stay valid until the batch is done. If an
    /// owner has several parts of one tensor, they are in ascending order, and each part gets its own dot products.
    void begin(const Batch& batch, std::span<const PartMap> maps);
    /// Like begin(), but each owner's results go to `results`, at the positions of its map. Ranks that are not owners
    /// pass null.
    void begin_into(const Batch& batch, std::span<const PartMap> maps, std::byte* results);
    /// Does one action; returns false if it could do nothing. Adds the number of bytes that it read or wrote to `work`.
    bool act(std::uint64_t& work);
    [[nodiscard]] bool is_done() const { return phase_ == Phase::done; }
    /// How many chunks went through the buffers in shared memory. The number is the same on all ranks of the host.
    [[nodiscard]] std::uint64_t chunks() const { return staged_chunks(); }
    /// Whether owners wrote directly to other ranks' outputs, in shared memory. If so, the batch counts in
    /// HostSet::resident_batches.
    [[nodiscard]] bool wrote_in_place() const { return to_outputs_ && has_in_place_; }

    /// Fills `maps` for a batch in which each tensor is cut into `parts` parts. Each owner gets parts/owners
    /// consecutive parts of each tensor: owner o begins with part o × parts/owners.
    static void cut(const Batch& batch, std::uint32_t parts, std::span<PartMap> maps);

private:
    enum class Phase : std::uint8_t { measure, numbers, combine, done };

    [[nodiscard]] bool is_owner() const { return set_.rank < owners_; }
    [[nodiscard]] std::uint64_t first_combined() const { return stays_ ? 0 : pieces_ + number_chunks_; }
    [[nodiscard]] std::uint64_t staged_chunks() const { return pieces_ + number_chunks_ + (stays_ ? 0 : pieces_); }
    [[nodiscard]] Range piece(std::uint64_t index) const { return {index * piece_bytes_, (index + 1) * piece_bytes_}; }
    [[nodiscard]] std::byte* place(std::uint32_t member, std::uint32_t owner, std::uint64_t number) const {
        return set_.arena->cell(member, set_.chunks + number) + owner * piece_bytes_;
    }

    void start(const Batch& batch, std::span<const PartMap> maps);
    [[nodiscard]] bool goes_in_place(std::uint32_t segment) const;
    template <class F>
    bool next_in_place(F&& f, std::uint64_t& work);
    bool measure_in_place(std::uint64_t& work);
    [[nodiscard]] bool is_measured() const { return in_place_is_done_ && measured_ == pieces_; }
    void measure_part(const PartMap::Part& part, std::uint64_t offset, std::uint64_t bytes);
    bool combine_in_place(std::uint64_t& work);
    [[nodiscard]] bool is_combined() const;
    void combine_part(const PartMap::Part& part, std::uint64_t offset, std::uint64_t bytes);
    bool stage_next(std::uint64_t first, std::uint64_t most, std::uint64_t& work);
    void stage(std::uint64_t index, std::uint64_t number, std::uint64_t& work);
    bool measure(std::uint64_t& work);
    void measure_piece(std::uint64_t index, std::uint64_t& work);
    bool sum_numbers();
    void begin_combining();
    bool combine(std::uint64_t& work);
    void combine_piece(std::uint64_t index, std::uint64_t number, std::uint64_t& work);
    bool fetch(std::uint64_t& work);
    void fetch_piece(std::uint64_t index, std::uint64_t number, std::uint64_t& work);
    void collect_sources(const PartMap::Part& part, std::uint64_t offset, std::uint64_t in_place, std::uint64_t number);
    [[nodiscard]] const Location& location(std::uint32_t segment, std::uint32_t member) const {
        return batch_.locations[std::size_t{segment} * set_.members + member];
    }

    HostSet& set_;
    std::uint32_t owners_;
    MayWrite may_write_;
    NumbersSum numbers_sum_;

    Batch batch_;
    std::span<const PartMap> maps_;
    std::vector<PartMap> staged_maps_;  // the parts that are copied through the buffers in shared memory
    std::vector<bool> in_place_;        // indexed by segment (tensor)
    bool has_in_place_ = false;
    bool to_outputs_ = true;
    std::byte* results_ = nullptr;     // an owner's memory for results, if they do not go to the outputs
    std::uint64_t piece_bytes_ = 0;    // the length of one owner's piece, in bytes
    std::uint64_t pieces_ = 0;         // number of pieces of the longest map in staged_maps_
    std::uint64_t number_chunks_ = 0;  // number of chunks that NumbersSum needs
    bool stays_ = false;

    Phase phase_ = Phase::done;
    std::uint64_t staged_ = 0;    // number of pieces that this rank copied to shared memory, in this phase
    std::uint64_t measured_ = 0;  // number of pieces that this rank measured, in this phase
    std::uint64_t combined_ = 0;
    std::uint64_t fetched_ = 0;
    // How far this rank has processed the in-place tensors in this phase, as an offset in its map.
    std::uint64_t in_place_at_ = 0;
    bool in_place_is_done_ = true;
    ops::DotProducts products_;
    std::vector<double> dots_;     // the dot products, indexed by segment (tensor), then by pair of members
    std::vector<double> weights_;  // the weights, indexed by segment (tensor), then by member
    std::vector<const std::byte*> sources_;
    std::vector<std::byte*> destinations_;
};

}  // namespace rueda::collectives
