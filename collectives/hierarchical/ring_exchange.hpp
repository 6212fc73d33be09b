// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The Rueda authors
#pragma once

#include <vector>

#include "collectives/hierarchical/network_allreduce.hpp"

namespace rueda::collectives {

/// Large tensors around a ring of the hosts, where the setting says so: everybody speaks to two neighbours only, in
/// 2(h−1) steps, with the same bytes as HostOrderExchange.
///
/// Of a tensor, granules of kGranule bytes belong to the parts 0 to h − 1 in turn. Part j begins at host j; each host
/// adds its partials to what it gets and hands it on, rounded to the dtype; the last one, host j − 1, makes the result,
/// which goes around in the same way. So the order of the hosts depends on an element's place in its tensor, and on
/// nothing else. A part's granules lie apart in the buffer: they are packed for their way.
///
///     memory: | partials, then results | the part that I begin, and what I get of each other one | results that I get
///     |
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
    /// Of what is sent in `phase`; received in it is the one before.
    [[nodiscard]] std::uint32_t part_sent(std::uint32_t phase) const;
    [[nodiscard]] std::uint32_t before(std::uint32_t part) const { return (part + hosts() - 1) % hosts(); }
    void take_received(std::uint32_t phase);
    void combine_part(const Part& part, std::byte* packed, ops::Reduction PartialReduction::*level);
    void pack(const Part& part, std::byte* packed) const;
    void unpack(const Part& part, const std::byte* packed);

    std::vector<Part> parts_;
    std::vector<std::byte*> packed_;  // what is sent in each phase; in the next one than that in which it came
};

}  // namespace rueda::collectives
