// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The Rueda authors
#pragma once

#include <cstdint>
#include <memory>

#include "base/settings/config.hpp"
#include "collectives/control_plane.hpp"
#include "collectives/host/arena/arena.hpp"
#include "collectives/local_group.hpp"
#include "core/negotiation/layout.hpp"

namespace rueda::core {

/// The arena of this rank's host, mapped and checked, and the extent of the negotiation in it.
struct AttachedArena {
    std::shared_ptr<collectives::Arena> arena;
    NegotiationExtent extent;
};

/// Whether the arena has regions for resident tensors and for messages. The arena of a process set uses those of the
/// job.
enum class ResidentRoom : std::uint8_t { yes, no };

/// Sets up the arena. The ranks agree on its sizes and compare them with the available memory. Then they create, share,
/// map and check it, and each rank touches its own part. Collective. All ranks get the same result, except for errors
/// that only one rank can see. The size of the chunks is based on `l2_bytes`, the size of the L2 cache; the smallest
/// value of all ranks is used. For `addresses` see Arena::map().
[[nodiscard]] Result<AttachedArena> set_up_arena(const base::Config& config, collectives::ControlPlane& control_plane,
                                                 const collectives::LocalGroup& group, std::uint64_t l2_bytes,
                                                 ResidentRoom resident,
                                                 collectives::AddressReserve* addresses = nullptr);

/// Computes all sizes for these settings, for a host with `members` of the `job_size` ranks. Pure. Returns
/// ResourceExhausted if the result exceeds RUEDA_ARENA_LIMIT.
struct ArenaSizes {
    collectives::ArenaPlan plan;
    NegotiationExtent extent;
};
[[nodiscard]] Result<ArenaSizes> plan_arena(const base::Config& config, std::uint32_t members, std::uint64_t l2_bytes,
                                            std::uint64_t resident_bytes, std::uint32_t job_size);

}  // namespace rueda::core
