// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The Rueda authors
#pragma once

#include <vector>

#include "collectives/hierarchical/network_allreduce.hpp"

namespace rueda::collectives {

/// An allreduce around a ring of the hosts, for large tensors, if the setting asks for it. Every host communicates only
/// with its two neighbours, in 2(h−1) steps for h hosts. It moves as many bytes as ReduceScatterExchange.
///
/// A tensor is divided into granules of kGranule bytes, which belong to the parts 0 to h − 1 in turn. Part j begins at
/// host j. Each host combines its partials with the data that it receives, rounds to the dtype, and sends the part to
/// the next host. The last host of the ring, j − 1, computes the result, and the result then goes around the ring in
/// the same way. The order in which hosts are combined therefore depends only on an element's position in its tensor.
/// The granules of a part are not contiguous in the buffer, so they are packed before they are sent.
///
///     layout of the memory:
///     | partials, then results | the part that begins here, and received bytes of the other parts | received results |
class RingExchange final : public NetworkAllreduce {
public:
    using NetworkAllreduce::NetworkAllreduce;
    static constexpr std::uint64_t kGranule = 4096;

    [[nodiscard]] std::uint32_t phases() const override { return 2 * (hosts() - 1); }
    void start_receives(std::uint32_t phase) override;
    void start_sends(std::uint32_t phase) override;
    void finish() override { take_received(phases() - 1); }
    [[nodiscard]] const std::byte* results() const override { return partials(); }

private:
    struct Piece {
        std::uint32_t segment;
        std::uint64_t offset;  // in the buffer
        std::uint64_t bytes;
    };
    struct Part {
        std::vector<Piece> pieces;
        std::uint64_t bytes = 0;
    };

    void prepare() override;
    /// The number of the part that this host sends in `phase`. In the same phase it receives the part with the next
    /// lower number.
    [[nodiscard]] std::uint32_t part_sent(std::uint32_t phase) const;
    [[nodiscard]] std::uint32_t before(std::uint32_t part) const { return (part + hosts() - 1) % hosts(); }
    void take_received(std::uint32_t phase);
    void combine_part(const Part& part, std::byte* packed, ops::Reduction PartialReduction::*level);
    void pack(const Part& part, std::byte* packed) const;
    void unpack(const Part& part, const std::byte* packed);

    std::vector<Part> parts_;
    std::vector<std::byte*> packed_;  // the data to send in each phase; it was received in the phase before
};

}  // namespace rueda::collectives
