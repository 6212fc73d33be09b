// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The Rueda authors
#include "collectives/hierarchical/ring_exchange.hpp"

#include <algorithm>
#include <array>

namespace rueda::collectives {

void RingExchange::prepare() {
    parts_.resize(hosts());
    for (Part& part : parts_) {
        part.pieces.clear();
        part.bytes = 0;
    }
    map().for_each_piece(
        share(), [&](std::uint32_t segment, std::uint64_t offset, std::uint64_t bytes, std::uint64_t at) {
            for (std::uint64_t done = 0; done < bytes;) {
                const std::uint64_t granule = (offset + done) / kGranule;
                const std::uint64_t length = std::min(bytes - done, (granule + 1) * kGranule - (offset + done));
                Part& part = parts_[granule % hosts()];
                part.pieces.push_back({segment, at + done - share().begin, length});
                part.bytes += length;
                done += length;
            }
        });
    std::byte* next = memory() + share().bytes();
    packed_.resize(phases() + 1);
    for (std::uint32_t phase = 0; phase <= phases(); ++phase) {
        packed_[phase] = next;
        next += parts_[part_sent(phase)].bytes;
    }
}

std::uint32_t RingExchange::part_sent(std::uint32_t phase) const { return (host() + 2 * hosts() - phase) % hosts(); }

void RingExchange::start_receives(std::uint32_t phase) {
    const std::uint32_t part = before(part_sent(phase));
    receive(phase, (host() + hosts() - 1) % hosts(), packed_[phase + 1], parts_[part].bytes);
}

void RingExchange::start_sends(std::uint32_t phase) {
    const Part& part = parts_[part_sent(phase)];
    if (phase == 0) {
        pack(part, packed_[0]);
    } else {
        take_received(phase - 1);
    }
    send((host() + 1) % hosts(), packed_[phase], part.bytes);
}

void RingExchange::take_received(std::uint32_t phase) {
    const Part& part = parts_[before(part_sent(phase))];
    std::byte* const packed = packed_[phase + 1];
    if (phase + 2 < hosts()) {
        combine_part(part, packed, &PartialReduction::between);
        return;
    }
    if (phase + 2 == hosts()) {
        combine_part(part, packed, &PartialReduction::last);
    }
    unpack(part, packed);
}

void RingExchange::combine_part(const Part& part, std::byte* packed, ops::Reduction PartialReduction::*level) {
    for (const Piece& piece : part.pieces) {
        const std::array<const std::byte*, 2> sources{packed, partials() + piece.offset};
        combine_piece(piece.segment, sources, packed, piece.bytes, level);
        packed += piece.bytes;
    }
}

void RingExchange::pack(const Part& part, std::byte* packed) const {
    for (const Piece& piece : part.pieces) {
        ops::copy(packed, partials() + piece.offset, piece.bytes);
        packed += piece.bytes;
    }
}

void RingExchange::unpack(const Part& part, const std::byte* packed) {
    for (const Piece& piece : part.pieces) {
        ops::copy(partials() + piece.offset, packed, piece.bytes);
        packed += piece.bytes;
    }
}

}  // namespace rueda::collectives
