// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The Rueda authors
#pragma once

#include <algorithm>
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <vector>

#include "collectives/rows.hpp"
#include "core/pending/tensor_table.hpp"
#include "core/process_set/common/set_view.hpp"

namespace rueda::core {

/// Writes this rank's announcement of an operation to the arena. The other ranks of the host read the announcement
/// through class Announced.
///
/// Threads: any thread, under the set's enqueue lock.
class AnnouncementWriter {
public:
    using Atomics = base::StdAtomics;

    explicit AnnouncementWriter(const SetView& view) : view_(view) {}

    /// Writes all fields of the announcement except the stamp, which publishes the announcement. Returns whether inputs
    /// of this operation and of this size are sent with their announcements.
    [[nodiscard]] bool fill(Place<Atomics>& place, const TensorEntry& entry, std::uint64_t generation,
                            bool with_metadata) const;
    /// Writes the splits of an alltoall or a scatter. Call this before the announcement is counted. In a set on several
    /// hosts, this function does nothing, because the ranks send their splits to each other.
    void fill_splits(std::int64_t* splits, const Request& request) const {
        if (!request.splits.empty() && view_.extent().has_splits()) [[unlikely]] {
            std::copy(request.splits.begin(), request.splits.end(), splits);
        }
    }
    /// Like fill_splits(), for an announcement in the slot of `entry`. If all splits are equal, only sets a flag. Call
    /// this after fill().
    void fill_splits(Place<Atomics>& place, const TensorEntry& entry) const {
        const std::vector<std::int64_t>& splits = entry.request.splits;
        if (std::adjacent_find(splits.begin(), splits.end(), std::not_equal_to<>()) == splits.end()) {
            place.flags |= splits.empty() ? 0U : static_cast<std::uint32_t>(Place<Atomics>::kEvenSplits);
        } else {
            fill_splits(view_.memory.splits(entry.slot, view_.rank, entry.generation), entry.request);
        }
    }
    /// If call sites are recorded, writes the source line of the call. Call this before the stamp is written. The
    /// announcement must be in a slot.
    void write_site(const TensorEntry& entry) const {
        if (view_.extent().call_sites != 0) [[unlikely]] {
            write_wanted_site(entry);
        }
    }
    /// Writes the stamp, which publishes the announcement. `order` is release or seq_cst. With either order, a stall
    /// monitor that sees the stamp also sees the time of the announcement. Use seq_cst if another member may wait for
    /// this announcement because that member has announced directly. Then either that member sees the stamp, or this
    /// rank sees that the member sleeps, and wakes it.
    static void publish(Place<Atomics>& place, const TensorEntry& entry, std::uint64_t generation,
                        std::memory_order order) {
        place.announced_ns.store(entry.submitted_ns, std::memory_order_relaxed);
        place.stamp.store(generation + 1, order);
    }

private:
    void write_wanted_site(const TensorEntry& entry) const;
    [[nodiscard]] std::byte* payload_room(Place<Atomics>& place, const TensorEntry& entry, std::uint64_t generation,
                                          std::uint64_t bytes) const;
    // These functions are for long inputs only. In the path of short ones, inlined code would cost instructions.
    [[nodiscard, gnu::noinline]] bool stays_resident(const Request& request, bool contributes,
                                                     std::uint64_t bytes) const;
    [[gnu::noinline]] void copy_for_others(std::byte* payload, const Request& request, std::uint64_t bytes) const;
    [[nodiscard]] collectives::Rows own_rows(const Request& request) const;
    [[gnu::noinline]] void let_leader_carry(Place<Atomics>& place, const TensorEntry& entry,
                                            std::uint64_t generation) const;

    SetView view_;
};

}  // namespace rueda::core
