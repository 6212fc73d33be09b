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
#include "collectives/host/arena/segment_map.hpp"

namespace rueda::collectives {

/// An allreduce of one share of a chunk, between hosts. A *lane* is a rank that sends and receives for its host, and
/// each lane of a host has a share of the chunk. All lanes with the same number, one on each host, reduce their shares
/// together.
///
/// The allreduce runs in phases, and all hosts have the same number of phases. In each phase a host may send and
/// receive. The receives of a phase may start before its sends. Messages have no tags, and messages between two ranks
/// are matched by their order. If a caller runs several allreduces at once (LanePipeline), it must start their phases
/// in the same order on all hosts.
///
/// After the send of a buffer was started, nothing is written to this buffer until the next begin().
///
/// Threads: only the thread that steps this rank's tasks ("drives progress") may call these functions.
class NetworkAllreduce {
public:
    /// `peers` contains one rank of each host: the lane with the same number.
    NetworkAllreduce(Messages& messages, const std::vector<std::uint32_t>& peers, std::uint32_t host)
        : messages_(messages), peers_(peers), host_(host) {}
    virtual ~NetworkAllreduce() = default;
    NetworkAllreduce(const NetworkAllreduce&) = delete;
    NetworkAllreduce& operator=(const NetworkAllreduce&) = delete;

    /// Begins the allreduce of the range `share` of `map`. `reductions` is indexed by segment (tensor of the batch).
    /// `memory` has NetworkChunks::memory_bytes() bytes.
    void begin(const SegmentMap& map, Range share, std::span<const PartialReduction> reductions, std::byte* memory);

    /// Memory for this host's partial results. The caller writes them before it starts the sends of the first phase.
    [[nodiscard]] std::byte* partials() const { return memory_; }
    [[nodiscard]] virtual std::uint32_t phases() const = 0;
    virtual void start_receives(std::uint32_t phase) = 0;
    /// Combines the data that the previous phase received, and then starts the sends of this phase.
    virtual void start_sends(std::uint32_t phase) = 0;
    /// Processes the data that the last phase received.
    virtual void finish() = 0;
    /// Valid after finish().
    [[nodiscard]] virtual const std::byte* results() const = 0;

    /// Whether everything up to and including `phase` has been received. Call this only after start_receives(phase).
    [[nodiscard]] bool has_received(std::uint32_t phase);
    /// Whether everything has been sent.
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
    /// Combines the elements in `range`, a part of the chunk's virtual range. `sources` and `destination` point to the
    /// first of these elements.
    void combine(Range range, std::span<const std::byte* const> sources, std::byte* destination,
                 ops::Reduction PartialReduction::*level);
    /// Combines bytes of one segment (tensor of the batch).
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
    std::vector<const std::byte*> sources_;  // the sources of one piece
};

}  // namespace rueda::collectives
