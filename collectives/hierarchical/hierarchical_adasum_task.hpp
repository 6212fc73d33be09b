// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The Rueda authors
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "collectives/communicator.hpp"
#include "collectives/hierarchical/hierarchical_set.hpp"
#include "collectives/hierarchical/peer_exchange.hpp"
#include "collectives/host/arena/part_map.hpp"
#include "collectives/host/tasks/adasum_passes.hpp"
#include "collectives/host/tasks/numbers_sum.hpp"
#include "ops/adasum.hpp"

namespace rueda::collectives {

/// An allreduce by Adasum over several hosts. First the ranks of each host combine their tensors (AdasumPasses) and
/// round to the dtype; the result is the host's *partial*. Then the hosts combine their partials, tensor by tensor. A
/// *lane* is a rank that sends and receives for its host. Each tensor is divided between the lanes, and a lane's part
/// is divided between the hosts. Let h be the number of hosts.
///
///     phase     by       what it does
///     partials  lane     copies its part of the host's result to its own memory
///     spread    lane     receives the partials of its host's part from all hosts, into its own memory
///     measure   lane     computes the dot products of these h partials
///     tell      lane     sends the dot products to the same lane of all hosts, which adds them in the hosts' order
///     sum       host     adds the dot products of all lanes, in the order of the lanes (NumbersSum)
///     combine   lane     computes its host's part of the result
///     collect   lane     receives the other hosts' parts of the result
///     deliver   host     copies the result through the cells to all outputs
///
/// The phases run one after the other, so the network is idle while a host computes. Cost: a lane whose part has P
/// bytes sends and receives 2 (h−1)/h × P bytes, and h (h+1)/2 numbers for each tensor. Recursive vector halving and
/// doubling would move as many bytes, but would take 2 log₂ h steps instead of two. With l lanes and a tensor of S
/// bytes, P = S/l. Each lane keeps memory for 2 P bytes and reuses it for the next batch.
///
/// Threads: only the thread that steps this rank's tasks ("drives progress") may call these functions.
class HierarchicalAdasumTask final : public Task {
public:
    explicit HierarchicalAdasumTask(HierarchicalSet& set);

    void begin(const Batch& batch);
    StepResult step() override;

private:
    enum class Phase : std::uint8_t { partials, spread, measure, tell, sum, combine, collect, deliver };

    [[nodiscard]] bool is_lane() const { return set_.rank < set_.hosts.lanes(); }
    [[nodiscard]] std::uint32_t peer(std::uint32_t host) const { return set_.hosts.ranks_of(host)[set_.rank]; }
    [[nodiscard]] std::uint32_t host_after(std::uint32_t distance) const {
        return (set_.hosts.my_host() + distance) % set_.hosts.count();
    }
    /// The range of `host`'s part within this rank's memory for partial results, as byte offsets.
    [[nodiscard]] Range part_of(std::uint32_t host) const { return {host_begins_[host], host_begins_[host + 1]}; }
    [[nodiscard]] Range own_part() const { return part_of(set_.hosts.my_host()); }
    [[nodiscard]] const PartMap& own_map() const { return maps_[set_.rank]; }
    [[nodiscard]] bool may_write(std::uint64_t number) const;

    void find_parts();
    void make_room();
    [[nodiscard]] bool act();
    [[nodiscard]] bool end();
    void spread();
    bool measure();
    void tell();
    void add_numbers();
    void find_weights();
    bool combine();
    void collect();
    bool deliver();
    bool publish_piece();
    bool take_piece();
    template <class F>
    bool next_of_own(F&& f);
    /// Sets `sources_` to the addresses of the hosts' partials, for the piece that begins at offset `at`.
    void collect_sources(std::uint64_t at);
    void write_results(std::uint32_t lane, const std::byte* piece, Range range);

    HierarchicalSet& set_;
    AdasumPasses passes_;
    PeerExchange exchange_;
    NumbersSum numbers_sum_;
    std::vector<PartMap> maps_;  // indexed by lane

    Batch batch_;
    Phase phase_ = Phase::partials;
    std::vector<std::uint64_t> host_begins_;  // offsets in this rank's memory at which each host's part begins, and the
                                              // end of the last part
    std::byte* memory_ = nullptr;
    std::uint64_t memory_bytes_ = 0;
    std::vector<std::byte*> received_;  // by host: the received partial of the part that this rank's host combines
    std::vector<std::byte*> numbers_;   // indexed by host: the received dot products
    std::uint64_t position_ = 0;        // how far the current phase has come: an offset in this host's part
    ops::DotProducts products_;
    std::vector<double> dots_;     // dot products, indexed by segment (tensor), then by pair of hosts
    std::vector<double> weights_;  // Adasum weights, indexed by segment (tensor), then by host
    std::vector<const std::byte*> sources_;
    std::uint64_t piece_bytes_ = 0;
    std::uint64_t pieces_ = 0;  // the number of pieces to deliver
    std::uint64_t published_ = 0;
    std::uint64_t taken_ = 0;
    std::uint64_t work_ = 0;  // bytes moved in this step
};

}  // namespace rueda::collectives
