// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The Rueda authors
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <string_view>
#include <vector>

#include "base/shared_memory/atomics.hpp"
#include "core/negotiation/layout.hpp"

namespace rueda::core {

/// A tensor that some members have announced and others have not. A tensor is also pending if all members have
/// announced it but the log has no call of it yet. The log lacks the call if a member is stopped in the middle of a
/// step of the negotiation.
struct PendingTensor {
    /// Distinguishes this pending operation from earlier and later operations in the same slot.
    struct Id {
        std::uint32_t slot = 0;  ///< the slot; kNoSlot if the announcements are in mailboxes, or if this is a join
        std::uint32_t use = 0;   ///< how often the slot was given a name; if there is no slot, a hash of the name
        std::uint64_t generation = 0;

        // NOLINTNEXTLINE(modernize-use-nullptr): clang-tidy takes the compiler's 0 for a pointer
        [[nodiscard]] auto operator<=>(const Id&) const = default;
    };

    Id id;
    std::string name;  ///< empty for an unnamed operation
    /// The number of an unnamed operation among the unnamed calls of the process set, from 1.
    std::uint64_t call = 0;
    /// The time (CLOCK_MONOTONIC) since which the operation is pending. This is the time of the last announcement if
    /// all members are ready, and otherwise the time of the first announcement.
    std::int64_t since_ns = 0;
    std::uint64_t ready_mask = 0;  ///< one bit per member that has announced the operation
    /// The source line of each member's call; "" if the member is not ready. The list is empty in a set without call
    /// sites.
    std::vector<std::string> sites = {};

    // The next two fields have one bit per member. They contain members that delay the operation for another reason
    // than a missing announcement.
    std::uint64_t unfinished_mask = 0;  ///< members that have not finished the step that they have begun
    std::uint64_t unread_mask = 0;      ///< members that must read more of the log before a slot or a mailbox record
                                        ///< becomes free for this operation
    /// Members that may have announced the tensor although `ready_mask` does not contain them. The mailbox of such a
    /// member is full, so some of its announcements wait in its private memory, where other members cannot see them.
    std::uint64_t unseen_mask = 0;
    std::int64_t last_ns = 0;  ///< time of the last announcement
};

/// Returns the number of unnamed operations that each member has announced. A member may have started more operations,
/// because operations that wait in its own queue are not counted. Threads: any.
[[nodiscard]] std::vector<std::uint64_t> unnamed_started(const NegotiationMemory<base::StdAtomics>& memory);
/// The ranks of the job, grouped by the number of unnamed operations that they have started.
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
/// Returns a text such as "; rank 1 has started 18 unnamed operations, ranks 0, 2: 17: …". Returns "" if all ranks have
/// started the same number.
[[nodiscard]] std::string describe_started(const StartedByRank& ranks);

/// Whether the name stands for join(). Such an entry stands for a call, not for a tensor.
[[nodiscard]] bool is_name_of_join(std::string_view name);

/// Everything that is pending in a process set, the longest pending first. All ranks that wait in join() are one entry,
/// "join()", with the time of the last announcement of any tensor. All ranks that wait for the end of the set are
/// another entry (pending_end.hpp). Reads only atomics that any thread may read at any time. Leaves out slots that
/// change while this function reads them, because a slot that changes is not stalled.
///
/// Reads one cache line for each slot that was ever used. Reads further cache lines only for pending tensors. Threads:
/// any.
[[nodiscard]] std::vector<PendingTensor> pending_tensors(const NegotiationMemory<base::StdAtomics>& memory);
/// Like pending_tensors(). On several hosts, it also returns operations that all members of this host have announced.
/// Such an operation may still wait for members on other hosts.
[[nodiscard]] std::vector<PendingTensor> pending_on_any_host(const NegotiationMemory<base::StdAtomics>& memory);

/// The members that delay the registrar's work: one bit per member, as in PendingTensor.
struct Obstacles {
    std::uint64_t unfinished_mask = 0;
    std::uint64_t unread_mask = 0;
};
/// Why this member's mailbox stays full, if it is full. Threads: any.
[[nodiscard]] Obstacles obstacles_to_mailbox(const NegotiationMemory<base::StdAtomics>& memory, std::uint32_t member);

/// Returns true if all members have announced the operation (for a join: have joined), or if the log says how the
/// operation ends. `slot` is kNoSlot if the caller does not know the slot. In that case `generation` is not used.
/// Threads: any.
[[nodiscard]] bool is_announced_by_all(const NegotiationMemory<base::StdAtomics>& memory, const std::string& name,
                                       std::uint32_t slot, std::uint64_t generation);

}  // namespace rueda::core
