// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The Rueda authors
#pragma once

#include <cstdint>

namespace rueda::collectives {
enum class DeviceCall : std::uint8_t;
}

namespace rueda::core {

/// What a member of a process set does with its GPU at present. The member stores this in Cursor::device, and the stall
/// reports of all ranks of the host read it.
struct DeviceState {
    /// The phases of a batch. In the phases up to `launching`, the member has begun the batch, but not launched it yet.
    /// In the later phases, the batch is launched.
    enum class Phase : std::uint8_t {
        idle,        ///< no batch is being launched
        offering,    ///< the member gave its offer (what it needs to connect) to the other members, and waits for their
                     ///< offers
        connecting,  ///< the member has the offers of all members, and the communicator connects
        agrees_on_order,   ///< the members agree on the batch's place in the order of the batches of all process sets
        waits_for_set,     ///< the batch of another process set goes first
        waits_for_turn,    ///< another communicator of this process puts its work into the GPU's stream
        launching,         ///< the communicator puts the work into the GPU's stream
        waits_for_inputs,  ///< the GPU has not done the program's work before the call
        copies,            ///< the GPU copies tensors between its memory and the host's
        on_cpu,            ///< the CPU exchanges the tensors' data with the other members
        in_peer_memory,    ///< the GPU works on a part of the tensors, in GPU memory that the members share
        meets_peers,       ///< the GPU did its share of that part, and waits for the other members
    };
    /// Whether the inputs of the oldest launched batch are ready. This is checked only if a batch takes long.
    enum class Inputs : std::uint8_t { unknown, awaited, ready };

    Phase phase = Phase::idle;
    Inputs inputs = Inputs::unknown;
    std::int32_t device = -1;  ///< the GPU's number in the member's process; -1: the member has used no GPU
    /// the number of the process set whose batch goes first, in the phase waits_for_set; else -1
    std::int32_t set = -1;
    collectives::DeviceCall call{};  ///< the work that the GPU executes for the oldest launched batch

    /// The largest number of a process set that fits into the 24 bits of the encoded state. If a set has a larger
    /// number, reports show a wrong number.
    static constexpr std::uint32_t kMostSet = 0xFFFFFF;

    [[nodiscard]] static constexpr DeviceState of(std::uint64_t word) {
        return {.phase = static_cast<Phase>(word & 0xFFU),
                .inputs = static_cast<Inputs>(word >> 8U & 0xFFU),
                .device = static_cast<std::int32_t>(word >> 16U & 0xFFFFU) - 1,
                .set = static_cast<std::int32_t>(word >> 32U & kMostSet) - 1,
                .call = static_cast<collectives::DeviceCall>(word >> 56U)};
    }
    [[nodiscard]] constexpr std::uint64_t word() const {
        return static_cast<std::uint64_t>(phase) | static_cast<std::uint64_t>(inputs) << 8U |
               static_cast<std::uint64_t>(static_cast<std::uint16_t>(device + 1)) << 16U |
               static_cast<std::uint64_t>(static_cast<std::uint32_t>(set + 1) & kMostSet) << 32U |
               static_cast<std::uint64_t>(call) << 56U;
    }
    [[nodiscard]] bool operator==(const DeviceState&) const = default;
};

}  // namespace rueda::core
