// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The Rueda authors
#pragma once

#include <optional>

#include "collectives/hierarchical/network_allreduce.hpp"

namespace rueda::collectives {

/// Recursive doubling, for small tensors of S bytes on h hosts: ⌊log₂ h⌋ steps. If h is not a power of two, there are
/// two more steps: one before these steps and one after them. In each step a host sends at most S bytes.
///
/// A *partial* is the combined input of some hosts. Partials are combined in a balanced tree, with the partials of
/// lower-numbered hosts on the left. Let p be the largest power of two that is not above h, and r = h − p. If r > 0,
/// each odd host among the first 2r hosts sends its partial to the host before it, in phase 0. (With 6 hosts, p = 4 and
/// r = 2: hosts 1 and 3 send to hosts 0 and 2.) In the last phase, each of these odd hosts receives the result from the
/// host before it. The other p hosts are numbered 0 to p − 1 in ascending order. In step k, two hosts whose numbers
/// differ in bit k exchange their partials. Every combination rounds to the dtype, and both hosts of a pair compute the
/// same bits.
class DoublingExchange final : public NetworkAllreduce {
public:
    DoublingExchange(Messages& messages, const std::vector<std::uint32_t>& peers, std::uint32_t host);

    [[nodiscard]] std::uint32_t phases() const override { return steps_ + (folded_ > 0 ? 2 : 0); }
    void start_receives(std::uint32_t phase) override;
    void start_sends(std::uint32_t phase) override;
    void finish() override { combine_received(phases() - 1); }
    [[nodiscard]] const std::byte* results() const override { return current_; }

private:
    enum class Role : std::uint8_t { none, take, give, exchange };
    struct Part {
        Role role = Role::none;
        std::uint32_t other = 0;
    };

    void prepare() override;
    [[nodiscard]] bool is_folded_away() const { return host() < 2 * folded_ && host() % 2 == 1; }
    [[nodiscard]] Part part_in(std::uint32_t phase) const;
    [[nodiscard]] std::byte* take_room();
    void combine_received(std::uint32_t phase);

    std::uint32_t steps_ = 0;
    std::uint32_t folded_ = 0;      // the number of odd hosts that send their partial first and receive the result last
                                    // (r in the class comment)
    std::uint32_t rooms_ = 0;       // how many buffers this allreduce uses so far
    std::byte* current_ = nullptr;  // the partials that this host has combined so far
    std::vector<std::byte*> rooms_of_phase_;
};

}  // namespace rueda::collectives
