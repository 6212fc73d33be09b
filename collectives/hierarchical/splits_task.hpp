// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The Rueda authors
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "collectives/communicator.hpp"
#include "collectives/hierarchical/hierarchical_set.hpp"

namespace rueda::collectives {

/// Sends one number from every rank to every other rank. Between ranks of one host, the numbers go through shared
/// memory. Between hosts, they go in messages.
class SplitsTask final : public Task {
public:
    explicit SplitsTask(HierarchicalSet& set) : set_(set) {}

    void begin(std::span<const std::int64_t> to, std::span<std::int64_t> from);
    StepResult step() override;

private:
    void start_messages();
    void take_messages();
    void tell_host();
    void learn_from_host();

    HierarchicalSet& set_;
    std::span<const std::int64_t> to_;
    std::span<std::int64_t> from_;
    std::byte* memory_ = nullptr;    // the numbers to send, and behind them the received numbers; both indexed by rank
    std::vector<Message> sends_;     // indexed by rank
    std::vector<Message> receives_;  // indexed by rank
    std::uint32_t received_ = 0;     // the number of ranks whose numbers have arrived
    bool told_ = false;
    bool learnt_ = false;
};

}  // namespace rueda::collectives
