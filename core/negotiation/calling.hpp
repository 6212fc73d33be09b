// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The Rueda authors
#pragma once

#include <atomic>
#include <cstdint>
#include <optional>

#include "core/negotiation/arrivals.hpp"
#include "core/negotiation/layout.hpp"
#include "core/negotiation/log.hpp"

/// The functions here count the announcements of an operation. When the announcements of all members are counted, these
/// functions append the call to the log. Other functions record how far a rank has read the log
/// (docs/design/0001-negotiation.md). Threads: the functions that count or append run under the rank's enqueue lock
/// (the mutex under which a rank announces); advance_cursor() and end_announcements() run in the thread that drives
/// progress.
namespace rueda::core {

/// The order of the steps, as Rueda itself uses it. An interleaving test passes another type, whose order is wrong. So
/// the test shows that it would notice this error.
struct ShippedSteps {
    static constexpr bool called_before_append = false;
    static constexpr std::memory_order end_of_announcements = std::memory_order_seq_cst;
};

/// Appends the call of a slot in which all members have announced, and then stores `arrivals` in the slot's `called`.
/// Returns the call's position in the log, or Log::kNowhere. `arrivals` is the number of all announcements in the slot
/// so far.
///
/// The store to `called` must come after the append. Once `called` is stored, the registrar may append the slot's
/// retirement, and members must read the call before the retirement.
template <class Atomics, class Steps = ShippedSteps>
std::uint64_t append_call(const NegotiationMemory<Atomics>& memory, Log<Atomics>& log,
                          const typename Log<Atomics>::Entry& call, std::uint64_t arrivals,
                          std::uint64_t begins_batch_at = Log<Atomics>::kNowhere, const Steps& steps = {}) {
    ArrivalWord<Atomics>& word = memory.arrivals(call.slot);
    // The store is a release, so a registrar that reads `called` in close_to_arrivals() also sees the appended call.
    const auto mark_as_called = [&] { word.called.store(arrivals, std::memory_order_release); };
    if (steps.called_before_append) {
        mark_as_called();
    }
    const std::uint64_t position = log.append(call, begins_batch_at);
    if (position == Log<Atomics>::kNowhere) [[unlikely]] {
        return position;
    }
    word.last_called.store(position, std::memory_order_relaxed);
    if (!steps.called_before_append) {
        mark_as_called();
    }
    return position;
}

/// Describes an announcement of this rank that must be counted.
struct Counting {
    std::uint32_t slot = kNoSlot;
    std::uint64_t counted = 0;  ///< how many uses of the slot were counted, including this use (≥ 1)
    bool changed = false;       ///< whether this rank's metadata differs from the metadata to which the slot is bound
};

/// The result of count_announcement().
enum class Counted {
    waiting,  ///< other members have not announced the operation yet
    called,   ///< this rank announced last, and has appended the call
    /// This rank announced last, but the metadata must be compared. The caller must ask the registrar to do this.
    unresolved,
    /// The announcement was not counted, because the slot no longer belongs to the tensor's name. The caller must
    /// announce the tensor by its name.
    retired,
    log_full,  ///< The log had no free entry. This cannot happen if all ranks are correct.
};

/// A call that the caller may append to the log now, without a comparison of metadata.
template <class Atomics>
struct ReadyCall {
    typename Log<Atomics>::Entry entry;
    std::uint64_t begins_batch_at = Log<Atomics>::kNowhere;  ///< see Log::append()
};

/// Counts this rank's announcement. The rank must already have written the data of the announcement. The member that
/// announces last also appends the call, unless the announcements must be compared first.
///
/// This function calls `arrived()` when it has counted the announcement, before it appends the call. `arrived()`
/// notifies members that have joined. If this rank announced last, this function then calls `ready_call()`, which
/// returns the call to append, or nothing if the registrar must compare the announcements.
template <class Atomics, class Arrived, class MakeReadyCall, class Steps = ShippedSteps>
[[nodiscard]] Counted count_announcement(const NegotiationMemory<Atomics>& memory, Log<Atomics>& log,
                                         const Counting& counting, Arrived&& arrived, MakeReadyCall&& ready_call,
                                         const Steps& steps = {}) {
    const Arrival arrival = arrive(memory, counting.slot, counting.counted, counting.changed);
    arrived();
    switch (arrival) {
        case Arrival::counted:
            return Counted::waiting;
        case Arrival::last_changed:
            return Counted::unresolved;
        case Arrival::retired:
            return Counted::retired;
        case Arrival::last:
            break;
    }
    const std::optional<ReadyCall<Atomics>> ready = ready_call();
    if (!ready) {
        return Counted::unresolved;
    }
    const std::uint64_t arrivals = counting.counted * memory.extent().members;
    const std::uint64_t position = append_call(memory, log, ready->entry, arrivals, ready->begins_batch_at, steps);
    return position == Log<Atomics>::kNowhere ? Counted::log_full : Counted::called;
}

/// Records that `rank` has read the log up to `position`. The registrar reads the positions of all members: it reuses
/// the number of a retired slot only when all members have read the entry that retires the slot. The release store
/// pairs with these reads.
template <class Atomics>
void advance_cursor(const NegotiationMemory<Atomics>& memory, std::uint32_t rank, std::uint64_t position) {
    memory.cursor(rank).position.store(position, std::memory_order_release);
}

/// Whether an entry of this kind ends announcements. A rank that has read a *retire* entry (a slot loses its name)
/// makes no further announcement in this slot. A rank that has read a *closing* entry (a rank has shut down) makes no
/// further announcement in any slot.
[[nodiscard]] constexpr bool ends_announcements(EntryKind kind) {
    return kind == EntryKind::retire || kind == EntryKind::closing;
}

/// Like advance_cursor(), but for a position after an entry that ends announcements. Afterwards the caller must wake
/// the sleeping members, because they may wait for an announcement that will not come. The store is seq_cst, because a
/// member that is about to sleep first records that it sleeps, and then reads this position in look_at_direct(). So
/// either the member sees the new position, or the caller sees that the member sleeps.
template <class Atomics, class Steps = ShippedSteps>
void end_announcements(const NegotiationMemory<Atomics>& memory, std::uint32_t rank, std::uint64_t position,
                       const Steps& steps = {}) {
    memory.cursor(rank).position.store(position, steps.end_of_announcements);
}

}  // namespace rueda::core
