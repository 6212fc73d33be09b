// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The Rueda authors
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "collectives/communicator.hpp"
#include "collectives/hierarchical/hierarchical_set.hpp"
#include "collectives/hierarchical/peer_exchange.hpp"
#include "collectives/host/adasum_passes.hpp"
#include "collectives/host/numbers_sum.hpp"
#include "collectives/host/part_map.hpp"
#include "ops/adasum.hpp"

namespace rueda::collectives {

/// An allreduce by adasum of ranks of several hosts: first of the ranks of each host (AdasumPasses), rounded to the
/// dtype, then of the hosts' *partials*, each tensor by itself. Every lane has a part of each tensor, and of that every
/// host a part again; of h hosts:
///
///     partials  lane     its part of the host's result                   → memory of its own
///     spread    lane     from all hosts, the part of it that is its host's → memory of its own
///     measure   lane     dot products of the h partials there
///     tell      lane     these to the same lane of all hosts, which adds them in the hosts' order
///     sum       host     the lanes' in their order (NumbersSum)
///     combine   lane     the part of the result that is its host's
///     collect   lane     the other hosts' parts of the result
///     deliver   host     through the cells, to all outputs
///
/// One after the other: the network rests while a host computes. Between hosts a lane sends and receives 2 (h−1)/h of
/// its part, as recursive vector halving and doubling would, in two steps instead of 2 log₂ h; and h (h+1)/2 numbers a
/// tensor. Memory: the lane's part twice, kept for the next batch. Of S bytes and l lanes a part has S/l.
///
/// Threads: whoever drives the engine.
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
    /// Of my lane's part, what is `host`'s; in my memory.
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
    /// Of one piece, by host: where its partial lies.
    void collect_sources(std::uint64_t at);
    void write_results(std::uint32_t lane, const std::byte* piece, Range range);

    HierarchicalSet& set_;
    AdasumPasses passes_;
    PeerExchange exchange_;
    NumbersSum numbers_sum_;
    std::vector<PartMap> maps_;  // by lane

    Batch batch_;
    Phase phase_ = Phase::partials;
    std::vector<std::uint64_t> host_begins_;  // in my lane's part; one more than hosts
    std::byte* memory_ = nullptr;
    std::uint64_t memory_bytes_ = 0;
    std::vector<std::byte*> received_;  // by host: its partial of my own part
    std::vector<std::byte*> numbers_;   // by host
    std::uint64_t position_ = 0;        // in my own part
    ops::DotProducts products_;
    std::vector<double> dots_;     // by segment, then by pair of hosts
    std::vector<double> weights_;  // by segment, then by host
    std::vector<const std::byte*> sources_;
    std::uint64_t piece_bytes_ = 0;
    std::uint64_t pieces_ = 0;  // to deliver
    std::uint64_t published_ = 0;
    std::uint64_t taken_ = 0;
    std::uint64_t work_ = 0;  // bytes, in this step
};

}  // namespace rueda::collectives
