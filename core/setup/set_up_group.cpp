// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The Rueda authors
#include "core/setup/set_up_group.hpp"

#include <utility>

#include "base/system/cache_size.hpp"
#include "core/setup/agreement.hpp"

namespace rueda::core {
namespace {

/// Fails if this host has too many members. On another host, with fewer members, this function may succeed at the same
/// time.
Status check_local_size(const collectives::LocalGroup& group) {
    return group.local_size <= base::kMaxLocalRanks
               ? Status()
               : failure(ErrorCode::unsupported, "{} ranks on one host; this version works with up to {}",
                         group.local_size, base::kMaxLocalRanks);
}

}  // namespace

Result<RankGroup> set_up_group(const base::Config& config, collectives::ControlPlane& control_plane,
                               collectives::LocalGroup group, ResidentRoom resident,
                               collectives::AddressReserve* addresses) {
    RankGroup ranks;
    ranks.group = std::move(group);
    RUEDA_RETURN_IF_FAILED(agree_on(control_plane, check_local_size(ranks.group)));
    Result<AttachedArena> attached =
        set_up_arena(config, control_plane, ranks.group, base::cache_sizes(), resident, addresses);
    RUEDA_RETURN_IF_FAILED(attached.status());
    ranks.attached = std::move(attached).value();
    return ranks;
}

}  // namespace rueda::core
