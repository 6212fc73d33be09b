// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The Rueda authors
#pragma once

#include <array>
#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <vector>

#include "collectives/hierarchical/hierarchical_set.hpp"
#include "collectives/hierarchical/network_allreduce.hpp"
#include "collectives/hierarchical/network_chunks.hpp"

namespace rueda::collectives {

/// Sends and receives the chunks of one lane (a rank that communicates for its host). Several chunks are in progress at
/// a time, so that the link stays busy while a host combines or copies another chunk.
///
/// **The order of messages.** MPI matches messages between two ranks by their order. All hosts must therefore start
/// their sends in the same order, and their receives in the same order. Each phase has a key, and phases start in
/// ascending order of their keys. If two keys are equal, the phase of the lower chunk starts first. Phase s of chunk c
/// has the key start(c) + kPhaseDistance × s. Chunks c and c − kSlots use the same slot. start(c) is the lowest number
/// that is greater than start(c − 1), and greater than all keys of chunk c − kSlots.
///
/// No circular wait can arise, because chunk c waits only for phases that come earlier in this order. First, it waits
/// for the end of the chunk that used its slot before. All phases of that chunk have lower keys. Second, each phase of
/// c waits for the preceding phase of c on all hosts.
///
/// Threads: only the thread that steps this rank's tasks ("drives progress") may call these functions.
class LanePipeline {
public:
    /// `lane` is this rank's number among the ranks that communicate for its host.
    LanePipeline(HierarchicalSet& set, const NetworkChunks& chunks, std::uint32_t lane);

    /// Begins the chunks of a batch. `reductions` is indexed by segment (tensor of the batch).
    void begin(std::span<const PartialReduction> reductions);

    /// Starts all messages that can start now, and combines at most one chunk. Returns false if it could do nothing.
    bool step();

    /// If is_open() is true, the caller may write to partials(). When it has written all partial results of this host,
    /// it calls filled().
    [[nodiscard]] bool is_open(std::uint64_t chunk) const { return chunk < opened_; }
    [[nodiscard]] std::byte* partials(std::uint64_t chunk) const { return slot(chunk).algorithm->partials(); }
    void filled(std::uint64_t chunk) { slot(chunk).filled = true; }
    /// If is_ready() is true, the caller may read results(). When it no longer needs them, it calls delivered(). The
    /// caller must deliver the chunks in order.
    [[nodiscard]] bool is_ready(std::uint64_t chunk) const { return chunk < ready_; }
    [[nodiscard]] const std::byte* results(std::uint64_t chunk) const { return slot(chunk).algorithm->results(); }
    void delivered() { ++delivered_; }
    /// Whether all messages were sent. Pending sends make progress only when this function is called.
    [[nodiscard]] bool all_sent();

private:
    /// The number of chunks in progress at one time. Three chunks are enough to keep a link busy while the other chunks
    /// are filled or delivered.
    static constexpr std::uint64_t kSlots = 6;
    /// How many chunks start their first phase before the first of them starts its second phase.
    static constexpr std::uint64_t kPhaseDistance = 3;

    struct Slot {
        std::array<std::unique_ptr<NetworkAllreduce>, kNetworkWays> algorithms;  // indexed by NetworkWay
        NetworkAllreduce* algorithm = nullptr;
        std::byte* memory = nullptr;
        std::uint64_t start = 0;     // the lowest key of the chunk
        std::uint32_t receives = 0;  // the number of phases whose receives were started
        std::uint32_t sends = 0;     // the number of phases whose sends were started
        bool filled = false;
    };
    [[nodiscard]] Slot& slot(std::uint64_t chunk) { return slots_[chunk % kSlots]; }
    [[nodiscard]] const Slot& slot(std::uint64_t chunk) const { return slots_[chunk % kSlots]; }
    [[nodiscard]] NetworkAllreduce& algorithm(Slot& slot, NetworkWay way);

    bool open_next();
    /// Returns the open chunk whose next phase comes first in the order of messages. Returns nothing if all phases of
    /// the open chunks were started, or if a chunk that is not open yet comes first. `started` is the counter to use:
    /// `receives` or `sends`.
    [[nodiscard]] std::optional<std::uint64_t> next_in_order(std::uint32_t Slot::*started) const;
    bool start_receives();
    bool start_sends();
    bool finish_next();

    HierarchicalSet& set_;
    const NetworkChunks& chunks_;
    std::uint32_t lane_;
    std::vector<std::uint32_t> peers_;  // indexed by host
    std::array<Slot, kSlots> slots_;
    std::span<const PartialReduction> reductions_;
    std::uint64_t count_ = 0;
    std::uint64_t next_start_ = 0;  // the lowest key of the next chunk
    std::uint64_t opened_ = 0;
    std::uint64_t ready_ = 0;
    std::uint64_t delivered_ = 0;
};

}  // namespace rueda::collectives
