// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The Rueda authors
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "collectives/hierarchical/hosts.hpp"
#include "collectives/hierarchical/messages.hpp"
#include "collectives/hierarchical/partial_reduction.hpp"
#include "collectives/host/segment_map.hpp"

namespace rueda::collectives {

/// One lane's share of a chunk: an allreduce between the ranks that are this lane on all hosts, of one buffer.
///
/// It goes in phases, which are as many on all hosts: in each, a host may send, and may receive. There are no tags:
/// between two ranks, messages are told apart by their order. So whoever drives several of them (LanePipeline) starts
/// the phases of all in one order, which is the same on all hosts; receives ahead of the sends.
///
/// A buffer that is sent is not written again before the next begin().
///
/// Threads: whoever drives the engine.
class NetworkAllreduce {
public:
    /// `peers`: by host, the rank that has this lane.
    NetworkAllreduce(Messages& messages, const std::vector<std::uint32_t>& peers, std::uint32_t host)
        : messages_(messages), peers_(peers), host_(host) {}
    virtual ~NetworkAllreduce() = default;
    NetworkAllreduce(const NetworkAllreduce&) = delete;
    NetworkAllreduce& operator=(const NetworkAllreduce&) = delete;

    /// `share` of `map`; `reductions` by segment. `memory` has NetworkChunks::memory_bytes().
    void begin(const SegmentMap& map, Range share, std::span<const PartialReduction> reductions, std::byte* memory);

    /// Where this host's partials have to lie before the first phase's sends.
    [[nodiscard]] std::byte* partials() const { return memory_; }
    [[nodiscard]] virtual std::uint32_t phases() const = 0;
    virtual void start_receives(std::uint32_t phase) = 0;
    /// Combines first what the phase before has received.
    virtual void start_sends(std::uint32_t phase) = 0;
    /// What the last phase has received.
    virtual void finish() = 0;
    /// After finish().
    [[nodiscard]] virtual const std::byte* results() const = 0;

    /// What was to be received up to and with `phase`, whose receives were started.
    [[nodiscard]] bool has_received(std::uint32_t phase);
    /// All that was sent.
    [[nodiscard]] bool has_sent();

protected:
    virtual void prepare() = 0;

    [[nodiscard]] std::uint32_t hosts() const { return static_cast<std::uint32_t>(peers_.size()); }
    [[nodiscard]] std::uint32_t host() const { return host_; }
    [[nodiscard]] Range share() const { return share_; }
    [[nodiscard]] const SegmentMap& map() const { return *map_; }
    [[nodiscard]] std::byte* memory() const { return memory_; }
    void send(std::uint32_t host, const std::byte* bytes, std::uint64_t count);
    void receive(std::uint32_t phase, std::uint32_t host, std::byte* room, std::uint64_t count);
    /// `range` of the virtual range; sources and destination begin with it.
    void combine(Range range, std::span<const std::byte* const> sources, std::byte* destination,
                 ops::Reduction PartialReduction::*level);
    /// Of one segment.
    void combine_piece(std::uint32_t segment, std::span<const std::byte* const> sources, std::byte* destination,
                       std::uint64_t bytes, ops::Reduction PartialReduction::*level) const {
        const PartialReduction& partial = reductions_[segment];
        const ops::Reduction& reduction = partial.*level;
        if (partial.compressed) {
            ops::reduce_compressed(*partial.compressed, reduction.op, sources, destination,
                                   bytes / ops::kCompressedBytes);
        } else {
            ops::reduce(reduction, sources, {&destination, 1}, bytes / size_of(reduction.dtype));
        }
    }

private:
    struct Receive {
        std::uint32_t phase;
        Message message;
    };

    Messages& messages_;
    const std::vector<std::uint32_t>& peers_;
    std::uint32_t host_;
    const SegmentMap* map_ = nullptr;
    Range share_;
    std::span<const PartialReduction> reductions_;
    std::byte* memory_ = nullptr;
    std::vector<Receive> receives_;
    std::size_t received_ = 0;
    std::vector<Message> sends_;
    std::size_t sent_ = 0;
    std::vector<const std::byte*> sources_;  // of a piece
};

}  // namespace rueda::collectives
