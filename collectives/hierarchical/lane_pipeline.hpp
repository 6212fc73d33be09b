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

/// Carries the chunks of one lane between hosts. Several chunks are in progress at a time, so that the link stays busy
/// while another chunk is combined or copied.
///
/// **The order of messages.** Messages between two ranks are matched only by their order, so all hosts must start their
/// sends in the same order, and also their receives in the same order. Phase s of chunk c has the key start(c) +
/// kPhaseDistance × s. Phases start in ascending order of their keys; for equal keys the lower chunk comes first.
/// start(c) is the next free key after all phases of the chunk that used the same slot before c. No circular wait can
/// arise, because everything that c waits for comes earlier in this order. Chunk c starts only after the previous chunk
/// in its slot has ended, and all phases of the previous chunk come earlier. A phase waits for the preceding phase of
/// the same chunk on all hosts, which also comes earlier.
///
/// Threads: the thread that drives progress.
class LanePipeline {
public:
    /// `lane` is this rank's lane.
    LanePipeline(HierarchicalSet& set, const NetworkChunks& chunks, std::uint32_t lane);

    /// Begins the chunks of a batch. `reductions` is indexed by segment.
    void begin(std::span<const PartialReduction> reductions);

    /// Starts all messages that can be started, and combines at most one chunk. Returns false if it could do nothing.
    bool step();

    /// If is_open(), the caller may write to partials(). It then calls filled() to say that all partials are there.
    [[nodiscard]] bool is_open(std::uint64_t chunk) const { return chunk < opened_; }
    [[nodiscard]] std::byte* partials(std::uint64_t chunk) const { return slot(chunk).algorithm->partials(); }
    void filled(std::uint64_t chunk) { slot(chunk).filled = true; }
    /// If is_ready(), the caller may read results(). It then calls delivered() to say that they are no longer needed.
    /// Chunks are delivered in order.
    [[nodiscard]] bool is_ready(std::uint64_t chunk) const { return chunk < ready_; }
    [[nodiscard]] const std::byte* results(std::uint64_t chunk) const { return slot(chunk).algorithm->results(); }
    void delivered() { ++delivered_; }
    /// Whether all messages were sent. Pending sends make progress only when this function is called.
    [[nodiscard]] bool all_sent();

private:
    /// The number of chunks in progress at one time. Three chunks are enough to keep a link busy while the other chunks
    /// are filled or delivered.
    static constexpr std::uint64_t kSlots = 6;
    /// How many chunks start their first phase before the first of these chunks starts its second phase.
    static constexpr std::uint64_t kPhaseDistance = 3;

    struct Slot {
        std::array<std::unique_ptr<NetworkAllreduce>, kNetworkWays> algorithms;  // by NetworkWay
        NetworkAllreduce* algorithm = nullptr;
        std::byte* memory = nullptr;
        std::uint64_t start = 0;     // key
        std::uint32_t receives = 0;  // phases whose receives were started
        std::uint32_t sends = 0;     // phases whose sends were started
        bool filled = false;
    };
    [[nodiscard]] Slot& slot(std::uint64_t chunk) { return slots_[chunk % kSlots]; }
    [[nodiscard]] const Slot& slot(std::uint64_t chunk) const { return slots_[chunk % kSlots]; }
    [[nodiscard]] NetworkAllreduce& algorithm(Slot& slot, NetworkWay way);

    bool open_next();
    /// Returns the open chunk whose next phase comes first in the order. Returns nothing if this phase belongs to a
    /// chunk that is not open yet, or if all phases were started.
    [[nodiscard]] std::optional<std::uint64_t> next_in_order(std::uint32_t Slot::*started) const;
    bool start_receives();
    bool start_sends();
    bool finish_next();

    HierarchicalSet& set_;
    const NetworkChunks& chunks_;
    std::uint32_t lane_;
    std::vector<std::uint32_t> peers_;  // by host
    std::array<Slot, kSlots> slots_;
    std::span<const PartialReduction> reductions_;
    std::uint64_t count_ = 0;
    std::uint64_t next_start_ = 0;  // the key of the chunk that is opened next
    std::uint64_t opened_ = 0;
    std::uint64_t ready_ = 0;
    std::uint64_t delivered_ = 0;
};

}  // namespace rueda::collectives
