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

/// A lane's chunks on their way between hosts: several at a time, so that the link is busy while one is combined or
/// copied.
///
/// **The order of messages.** Between two ranks messages are told apart by their order only, so all hosts start their
/// sends, and their receives, in the same one: phase s of chunk c has the key start(c) + kPhaseDistance × s, and all
/// goes by ascending keys, of equal ones the lower chunk first. start(c) is the next free key, behind all phases of the
/// chunk that had c's slot before. So nothing waits in a circle: the start of a chunk waits for that one to have
/// ended, whose phases all come before it; and a phase waits for its predecessor on all hosts, which comes before it.
///
/// Threads: whoever drives the engine.
class LanePipeline {
public:
    /// `lane`: this rank's.
    LanePipeline(HierarchicalSet& set, const NetworkChunks& chunks, std::uint32_t lane);

    /// The chunks of a batch; `reductions` by segment.
    void begin(std::span<const PartialReduction> reductions);

    /// Starts what can be started, and combines at most one chunk. False: nothing could be done.
    bool step();

    /// Whether partials() may be written; then filled() says that all are there.
    [[nodiscard]] bool is_open(std::uint64_t chunk) const { return chunk < opened_; }
    [[nodiscard]] std::byte* partials(std::uint64_t chunk) const { return slot(chunk).algorithm->partials(); }
    void filled(std::uint64_t chunk) { slot(chunk).filled = true; }
    /// Whether results() may be read; then delivered() says that nobody needs them any more. In order.
    [[nodiscard]] bool is_ready(std::uint64_t chunk) const { return chunk < ready_; }
    [[nodiscard]] const std::byte* results(std::uint64_t chunk) const { return slot(chunk).algorithm->results(); }
    void delivered() { ++delivered_; }
    /// Everything has been sent. The sends that are under way make progress by this alone.
    [[nodiscard]] bool all_sent();

private:
    /// At one time. Three are enough to keep a link busy; the others are filled or delivered meanwhile.
    static constexpr std::uint64_t kSlots = 6;
    /// So many chunks are sent before the second phase of the first one.
    static constexpr std::uint64_t kPhaseDistance = 3;

    struct Slot {
        std::array<std::unique_ptr<NetworkAllreduce>, kNetworkWays> algorithms;  // by NetworkWay
        NetworkAllreduce* algorithm = nullptr;
        std::byte* memory = nullptr;
        std::uint64_t start = 0;     // key
        std::uint32_t receives = 0;  // phases whose receives were started
        std::uint32_t sends = 0;     // likewise
        bool filled = false;
    };
    [[nodiscard]] Slot& slot(std::uint64_t chunk) { return slots_[chunk % kSlots]; }
    [[nodiscard]] const Slot& slot(std::uint64_t chunk) const { return slots_[chunk % kSlots]; }
    [[nodiscard]] NetworkAllreduce& algorithm(Slot& slot, NetworkWay way);

    bool open_next();
    /// The chunk whose next phase comes first; none: that of a chunk which is not open yet, or of no chunk.
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
    std::uint64_t next_start_ = 0;  // key of the chunk that is opened next
    std::uint64_t opened_ = 0;
    std::uint64_t ready_ = 0;
    std::uint64_t delivered_ = 0;
};

}  // namespace rueda::collectives
