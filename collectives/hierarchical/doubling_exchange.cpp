// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The Rueda authors
#include "collectives/hierarchical/doubling_exchange.hpp"

#include <array>
#include <bit>

#include "base/assert.hpp"
#include "collectives/hierarchical/network_chunks.hpp"

namespace rueda::collectives {

DoublingExchange::DoublingExchange(Messages& messages, const std::vector<std::uint32_t>& peers, std::uint32_t host)
    : NetworkAllreduce(messages, peers, host),
      steps_(static_cast<std::uint32_t>(std::bit_width(peers.size())) - 1),
      folded_(static_cast<std::uint32_t>(peers.size() - std::bit_floor(peers.size()))) {}

void DoublingExchange::prepare() {
    current_ = partials();
    rooms_ = 1;  // the first buffer holds the partials
    rooms_of_phase_.assign(phases(), nullptr);
}

/// Every step has its own buffers, so that data being sent or received is never overwritten.
std::byte* DoublingExchange::take_room() {
    RUEDA_ASSERT(rooms_ < NetworkChunks::doubling_rooms(hosts()));
    return memory() + rooms_++ * share().bytes();
}

DoublingExchange::Part DoublingExchange::part_in(std::uint32_t phase) const {
    const bool folding_in = folded_ > 0 && phase == 0;
    if (folding_in || (folded_ > 0 && phase + 1 == phases())) {
        if (host() >= 2 * folded_) {
            return {};
        }
        return {is_folded_away() == folding_in ? Role::give : Role::take, host() ^ 1U};
    }
    if (is_folded_away()) {
        return {};
    }
    const std::uint32_t step = folded_ > 0 ? phase - 1 : phase;
    const std::uint32_t number = host() < 2 * folded_ ? host() / 2 : host() - folded_;
    const std::uint32_t other = number ^ (1U << step);
    return {Role::exchange, other < folded_ ? 2 * other : other + folded_};
}

void DoublingExchange::start_receives(std::uint32_t phase) {
    const Part part = part_in(phase);
    if (part.role == Role::take || part.role == Role::exchange) {
        rooms_of_phase_[phase] = take_room();
        receive(phase, part.other, rooms_of_phase_[phase], share().bytes());
    }
}

void DoublingExchange::start_sends(std::uint32_t phase) {
    if (phase > 0) {
        combine_received(phase - 1);
    }
    const Part part = part_in(phase);
    if (part.role == Role::give || part.role == Role::exchange) {
        send(part.other, current_, share().bytes());
    }
}

void DoublingExchange::combine_received(std::uint32_t phase) {
    std::byte* const received = rooms_of_phase_[phase];
    if (received == nullptr) {
        return;
    }
    if (is_folded_away()) {
        current_ = received;  // this host took no part in the combining; it received the finished result
        return;
    }
    const bool other_is_lower = part_in(phase).other < host();
    const std::array<const std::byte*, 2> sources{other_is_lower ? received : current_,
                                                  other_is_lower ? current_ : received};
    const bool is_last = phase + 1 == phases() - (folded_ > 0 ? 1 : 0);
    current_ = take_room();
    combine(share(), sources, current_, is_last ? &PartialReduction::last : &PartialReduction::between);
}

}  // namespace rueda::collectives
