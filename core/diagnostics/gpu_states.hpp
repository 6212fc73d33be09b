// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The Rueda authors
#pragma once

#include <cstdint>

#include "core/diagnostics/stall_report.hpp"
#include "core/negotiation/device_state.hpp"
#include "core/negotiation/layout.hpp"

namespace rueda::core {

/// The state of one member and its GPU, for the batch at a position of the log. The member publishes it.
struct GpuState {
    enum class Stage : std::uint8_t {
        not_begun,      ///< the member has not reached the batch
        launching,      ///< the member is about to launch the batch; `state.phase` says how far the member is
        behind_others,  ///< the member has launched the batch, and its GPU still works on an earlier batch
        on_gpu,         ///< the member has launched the batch, and its GPU has done all earlier batches
        done,           ///< the member's GPU has done the batch
    };
    Stage stage = Stage::not_begun;
    DeviceState state{};
    std::int64_t launched_ns = 0;  ///< when the member launched the batch; valid only if the state is `on_gpu`
};
[[nodiscard]] GpuState gpu_state_of(const NegotiationMemory<base::StdAtomics>& memory, std::uint32_t member,
                                    std::uint64_t position);

/// Writes the state into the rank's entry of a report.
void add_gpu_state(StallReport::Rank& rank, const GpuState& state, std::int64_t now_ns);

}  // namespace rueda::core
