// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The Rueda authors
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include "base/shared_memory/atomics.hpp"
#include "core/negotiation/layout.hpp"

namespace rueda::core {

/// A tensor that some members have announced and others have not; or that all have announced, and the log does not
/// call, because a member is stopped in the middle of a step of the negotiation.
struct PendingTensor {
    /// Tells this pending operation from earlier and later ones of the same slot.
    struct Id {
        std::uint32_t slot = 0;  ///< kNoSlot: the announcements wait in mailboxes, or it is a join
        std::uint32_t use = 0;   ///< how often the slot was given a name; without a slot, a hash of the name
        std::uint64_t generation = 0;

        // NOLINTNEXTLINE(modernize-use-nullptr): takes the 0 that the compiler compares with for a pointer
        [[nodiscard]] auto operator<=>(const Id&) const = default;
    };

    Id id;
    std::string name;              ///< empty: unnamed
    std::uint64_t call = 0;        ///< of an unnamed one: the how-manieth unnamed call of the process set, from 1 on
    std::int64_t since_ns = 0;     ///< the first announcement, or the last where all are ready; CLOCK_MONOTONIC
    std::uint64_t ready_mask = 0;  ///< bit per member
    /// By member: where the call stands, "" if not ready; of a set with call sites.
    std::vector<std::string> sites = {};

    // Why it does not go on, besides members that are not ready. A bit per member.
    std::uint64_t unfinished_mask = 0;  ///< they have begun the step that comes next, and not finished it
    std::uint64_t unread_mask = 0;      ///< they have to read the log before there is a slot, or a record, for it
    /// They are not ready as far as anybody can see, and may have announced it: they have announcements that wait for
    /// room in their mailbox, whose names only they know.
    std::uint64_t unseen_mask = 0;
    std::int64_t last_ns = 0;  ///< the last announcement
};

/// How many unnamed operations each member has announced, at least: what waits in its own queue is not among them.
/// Threads: any.
[[nodiscard]] std::vector<std::uint64_t> unnamed_started(const NegotiationMemory<base::StdAtomics>& memory);
/// Ranks of the job by how many unnamed operations they have started.
using StartedByRank = std::map<std::uint64_t, std::vector<std::int32_t>>;
template <class RankOf>
[[nodiscard]] StartedByRank started_by_rank(const NegotiationMemory<base::StdAtomics>& memory, RankOf&& rank_of) {
    StartedByRank ranks;
    const std::vector<std::uint64_t> started = unnamed_started(memory);
    for (std::uint32_t member = 0; member < started.size(); ++member) {
        ranks[started[member]].push_back(rank_of(member));
    }
    return ranks;
}
/// "; rank 1 has started 18 unnamed operations, ranks 0, 2: 17: …", where the ranks have started different numbers of
/// them; else "".
[[nodiscard]] std::string describe_started(const StartedByRank& ranks);

/// What is pending in a process set, the longest pending first; ranks that wait in join() with nothing announced since
/// are one of them, "join()", and so is the end of the set that ranks wait for (pending_end.hpp). Reads only what may
/// be read at any time, so a slot that changes meanwhile is left out: it is not stalled.
///
/// Costs a cache line per slot that was ever given out, and more only for pending ones.
/// Threads: any.
[[nodiscard]] std::vector<PendingTensor> pending_tensors(const NegotiationMemory<base::StdAtomics>& memory);
/// The same, and on several hosts also what all members of this host have announced and other hosts may not have.
[[nodiscard]] std::vector<PendingTensor> pending_on_any_host(const NegotiationMemory<base::StdAtomics>& memory);

/// What holds up the registrar's work. A bit per member, as in PendingTensor.
struct Obstacles {
    std::uint64_t unfinished_mask = 0;
    std::uint64_t unread_mask = 0;
};
/// Why this member's mailbox has no room, if it has none. Threads: any.
[[nodiscard]] Obstacles obstacles_to_mailbox(const NegotiationMemory<base::StdAtomics>& memory, std::uint32_t member);

/// All members have announced the operation, or have joined in a join, or the log says what becomes of it. `slot`:
/// kNoSlot if the member that asks does not know it; then `generation` does not matter. Threads: any.
[[nodiscard]] bool is_announced_by_all(const NegotiationMemory<base::StdAtomics>& memory, const std::string& name,
                                       std::uint32_t slot, std::uint64_t generation);

}  // namespace rueda::core
