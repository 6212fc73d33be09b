// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The Rueda authors
#pragma once

#include <cstdint>

#include "base/shared_memory/atomics.hpp"
#include "collectives/host/arena/arena.hpp"
#include "core/negotiation/layout.hpp"
#include "core/operations/requests.hpp"
#include "core/pending/set_identity.hpp"

namespace rueda::core {

/// What all parts of a process set need to know about the set: this rank's position in it, and the memory of this
/// host's announcements. Each part has a copy of this object, or a reference to the copy in ProcessSet. The objects to
/// which SetView refers outlive all parts.
struct SetView {
    const SetIdentity& identity;
    const collectives::Arena& arena;
    const NegotiationMemory<base::StdAtomics>& memory;
    std::uint32_t rank = 0;      ///< this rank's position among the members on this host
    std::uint32_t set_rank = 0;  ///< this rank's position among the members on all hosts
    std::uint32_t set_size = 0;  ///< the number of members on all hosts

    [[nodiscard]] const NegotiationExtent& extent() const { return memory.extent(); }
    /// All members and this rank's number among them, for make_request().
    [[nodiscard]] Membership membership() const { return {identity.ranks, static_cast<int>(set_rank)}; }
    /// This rank's number in the job.
    [[nodiscard]] std::int32_t own_job_rank() const { return identity.ranks[set_rank]; }
    /// The number that a member on this host has in the job, for texts.
    [[nodiscard]] std::int32_t job_rank_of(std::uint32_t member) const {
        return arena.blocks().of(member).global_rank.load(std::memory_order_relaxed);
    }
    /// Operations without a name are counted from 1. Returns the number of the operation that used `slot` in
    /// `generation`.
    [[nodiscard]] std::uint64_t call_of_unnamed(std::uint32_t slot, std::uint64_t generation) const {
        return (generation - 1) * extent().unnamed_slots + slot + 1;
    }
};

}  // namespace rueda::core
