// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The Rueda authors
#include "core/process_set/announcing/direct_announcements.hpp"

#include <algorithm>
#include <new>
#include <utility>

#include "collectives/operation.hpp"
#include "core/process_set/announcing/announcement_writer.hpp"

namespace rueda::core {

using collectives::Operation;

void DirectAnnouncements::announce(TensorEntry& entry, Place<Atomics>& place, Urgency urgency) {
    place.flags |= Place<Atomics>::kDirect;
    if (auto& last = memory_.cursor(view_.rank).direct; last.load(std::memory_order_relaxed) != entry.slot + 1) {
        // The store is a release, and pairs with the stall monitor's acquire load.
        last.store(entry.slot + 1, std::memory_order_release);
    }
    if (urgency == Urgency::driving) {
        at_once_ = &entry;
        at_once_number_ = recording_.number();
        // The store to `direct_` may be relaxed: until another thread takes the progress lock, only this thread reads
        // it.
        direct_.store(&entry, std::memory_order_relaxed);
    } else {
        // The store to `direct_` comes before the announcement is published. It is seq_cst, because the thread that
        // drives progress first marks itself as asleep, and then reads `direct_`. Either that thread sees this store,
        // or announced_more() below sees the mark and wakes that thread.
        direct_.store(&entry, std::memory_order_seq_cst);
    }
    AnnouncementWriter::publish(place, entry, entry.generation, std::memory_order_seq_cst);
    waking_.announced_more(urgency);
    joined_.tell(entry);
}

bool DirectAnnouncements::finish_at_once(int looks) {
    TensorEntry* entry = std::exchange(at_once_, nullptr);
    if (entry == nullptr) {
        return false;
    }
    // The flight recorder gets its record only now. No other member waits for it, because the announcement is already
    // visible.
    recording_.submitted(*entry, at_once_number_, entry->generation, /*is_blocking=*/true);
    DirectState found = DirectState::waiting;
    for (int look = 0; look < looks && found == DirectState::waiting; ++look) {
        found = look_at_direct(memory_, entry->slot, view_.rank, entry->generation);
    }
    if (found == DirectState::complete) {
        const std::uint64_t started = base::ticks_now();
        if (execute(*entry)) {
            forget();
            ends_.complete_uncounted(
                *entry, collectives::has_variable_rows(static_cast<Operation>(entry->request.metadata.operation)),
                started, Recording::end_of(*entry, started));
            return true;
        }
    }
    ends_.count_one();
    return false;
}

bool DirectAnnouncements::others_may_use(const TensorEntry& entry) const {
    const auto operation = static_cast<Operation>(entry.agreed.operation);
    return memory_.extent().inputs_travel() && operation != Operation::barrier &&
           (collectives::may_differ_in_rows(operation) ||
            memory_.payload(entry.slot, view_.rank, entry.generation, bytes_of(entry.agreed)) != nullptr);
}

TensorEntry& DirectAnnouncements::withdraw() {
    TensorEntry& entry = *direct_.load(std::memory_order_relaxed);
    forget();
    return entry;
}

DirectState DirectAnnouncements::turn(std::uint64_t last_position) {
    // `direct_` is not null, because the caller has checked any().
    TensorEntry& entry = *direct_.load(std::memory_order_relaxed);
    const DirectState found =
        look_at_direct(memory_, entry.slot, view_.rank, entry.generation, std::min(last_position, closing_at_));
    if (found == DirectState::complete) {
        const std::uint64_t started = base::ticks_now();
        recording_.started_directly(entry, started);
        if (execute(entry)) {
            forget();
            ends_.complete(entry, {}, Recording::end_of(entry, started));
        }
    }
    return found;
}

/// Returns true if the operation was executed. If a member's announcement is wrong, or if memory has run out, ends the
/// job and returns false.
bool DirectAnnouncements::execute(TensorEntry& entry) {
    try {
        const Status executed = execution_.run(entry);
        if (!executed.is_ok()) [[unlikely]] {
            ends_.raise(executed);
            return false;
        }
    } catch (const std::bad_alloc&) {
        ends_.raise_no_memory();
        return false;
    }
    if (view_.rank == 0) {
        note_use(entry);
    }
    return true;
}

/// Records that the slot of `entry` was used just now. The search for idle slots needs this record, because a direct
/// operation leaves no entry in the log.
void DirectAnnouncements::note_use(const TensorEntry& entry) const {
    auto& last_called = memory_.arrivals(entry.slot).last_called;
    if (const std::uint64_t next = cursor_.position(); last_called.load(std::memory_order_relaxed) < next) {
        last_called.store(next, std::memory_order_relaxed);
    }
}

}  // namespace rueda::core
