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
    /// The phases of a batch. The order matters: up to `launching`, the batch is not launched yet; in all later phases,
    /// it is launched.
    enum class Phase : std::uint8_t {
        idle,  ///< no batch is being launched
        /// The member gave its offer (the data needed to connect to it) to the other members, and waits for their
        /// offers.
        offering,
        connecting,       ///< The member has the offers of all members, and the communicator is connecting.
        agrees_on_order,  ///< the members agree on the batch's place in the order of the batches of all process sets
        waits_for_set,    ///< The batch must wait, because a batch of another process set goes first.
        /// The member waits while another communicator of this process puts its work into the GPU's stream.
        waits_for_turn,
        launching,         ///< the communicator of this batch is putting its work into the GPU's stream
        waits_for_inputs,  ///< The GPU has not finished the work that the program gave it before the call.
        copies,            ///< the GPU copies tensors between its memory and the host's
        on_cpu,            ///< the CPU exchanges the tensors' data with the other members
        in_peer_memory,    ///< the GPU works on a part of the tensors, in GPU memory that the members share
        meets_peers,       ///< The GPU did its share of the work in shared GPU memory, and waits for the other members.
    };
    /// Whether the inputs of the oldest launched batch are ready. This is checked only if a batch takes long.
    enum class Inputs : std::uint8_t { unknown, awaited, ready };

    Phase phase = Phase::idle;
    Inputs inputs = Inputs::unknown;
    std::int32_t device = -1;  ///< the GPU's number in the member's process; -1: the member has used no GPU
    /// In the phase waits_for_set, the number of the process set whose batch goes first. In other phases, -1.
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
