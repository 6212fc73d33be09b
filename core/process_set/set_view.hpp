// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The Rueda authors
#pragma once

#include <cstdint>

#include "base/shared_memory/atomics.hpp"
#include "collectives/host/arena/arena.hpp"
#include "core/negotiation/layout.hpp"
#include "core/pending/set_identity.hpp"

namespace rueda::core {

/// What the parts of a process set know of it: which of its members this rank is, and where those of this host
/// announce. Copied; what it refers to outlives it, and stays the same.
struct SetView {
    const SetIdentity& identity;
    const collectives::Arena& arena;
    const NegotiationMemory<base::StdAtomics>& memory;
    std::uint32_t rank = 0;      ///< among the members on this host
    std::uint32_t set_rank = 0;  ///< among those on all hosts
    std::uint32_t set_size = 0;

    [[nodiscard]] const NegotiationExtent& extent() const { return memory.extent(); }
    /// For messages: people know ranks of the job. Of a member on this host.
    [[nodiscard]] std::int32_t job_rank_of(std::uint32_t member) const {
        return arena.blocks().of(member).global_rank.load(std::memory_order_relaxed);
    }
};

}  // namespace rueda::core
