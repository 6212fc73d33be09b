// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The Rueda authors
#pragma once

#include <cstdint>
#include <memory>

#include "base/settings/config.hpp"
#include "base/system/cache_size.hpp"
#include "collectives/control_plane.hpp"
#include "collectives/host/arena/arena.hpp"
#include "collectives/local_group.hpp"
#include "core/negotiation/layout.hpp"

namespace rueda::core {

/// The arena of this rank's host, mapped and checked, and the sizes of the negotiation's tables in it.
struct AttachedArena {
    std::shared_ptr<collectives::Arena> arena;
    NegotiationExtent extent;
};

/// Whether the arena has regions for resident tensors and for messages. The arena of a process set has no such regions,
/// because process sets use the regions of the job's arena.
enum class ResidentRoom : std::uint8_t { yes, no };

/// Sets up the arena. Collective. The ranks agree on the sizes and compare them with the available memory. Then they
/// create, share, map and check the arena, and each rank touches its own part. All ranks get the same result, except
/// for errors that only one rank can see. `caches` determines the size of the chunks, and which outputs are written
/// past the caches. The ranks use the smallest cache sizes of all ranks. Arena::map() describes `addresses`.
[[nodiscard]] Result<AttachedArena> set_up_arena(const base::Config& config, collectives::ControlPlane& control_plane,
                                                 const collectives::LocalGroup& group, const base::CacheSizes& caches,
                                                 ResidentRoom resident,
                                                 collectives::AddressReserve* addresses = nullptr);

/// Computes all sizes for a host with `members` of the job's `job_size` ranks. Pure. Returns ResourceExhausted if the
/// arena would exceed RUEDA_ARENA_LIMIT.
struct ArenaSizes {
    collectives::ArenaPlan plan;
    NegotiationExtent extent;
};
[[nodiscard]] Result<ArenaSizes> plan_arena(const base::Config& config, std::uint32_t members,
                                            const base::CacheSizes& caches, std::uint64_t resident_bytes,
                                            std::uint32_t job_size);

}  // namespace rueda::core
