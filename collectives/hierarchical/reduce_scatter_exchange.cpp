// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The Rueda authors
#include "collectives/hierarchical/reduce_scatter_exchange.hpp"

namespace rueda::collectives {

void ReduceScatterExchange::prepare() {
    const std::uint64_t rooms = (hosts() - 1) * part(host()).bytes();
    results_ = memory() + share().bytes() + rooms;
}

std::byte* ReduceScatterExchange::room(std::uint32_t other) const {
    return memory() + share().bytes() + (other < host() ? other : other - 1) * part(host()).bytes();
}

/// Each host begins with a different neighbour, so that not all hosts send to the same host at once.
void ReduceScatterExchange::start_receives(std::uint32_t phase) {
    for (std::uint32_t step = 1; step < hosts(); ++step) {
        const std::uint32_t other = (host() + hosts() - step) % hosts();
        if (phase == 0) {
            receive(phase, other, room(other), part(host()).bytes());
        } else {
            receive(phase, other, results_ + offset(part(other)), part(other).bytes());
        }
    }
}

void ReduceScatterExchange::start_sends(std::uint32_t phase) {
    if (phase == 1) {
        combine_part();
    }
    const std::byte* const from = phase == 0 ? partials() : results_;
    for (std::uint32_t step = 1; step < hosts(); ++step) {
        const std::uint32_t other = (host() + step) % hosts();
        const Range sent = part(phase == 0 ? other : host());
        send(other, from + offset(sent), sent.bytes());
    }
}

void ReduceScatterExchange::combine_part() {
    const Range mine = part(host());
    parts_.resize(hosts());
    for (std::uint32_t other = 0; other < hosts(); ++other) {
        parts_[other] = other == host() ? partials() + offset(mine) : room(other);
    }
    combine(mine, parts_, results_ + offset(mine), &PartialReduction::last);
}

}  // namespace rueda::collectives
