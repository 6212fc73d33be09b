// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The Rueda authors
#pragma once

#include <algorithm>
#include <atomic>
#include <cstddef>
#include <cstdint>

#include "core/runtime/set_view.hpp"
#include "core/runtime/tensor_table.hpp"

namespace rueda::core {

/// Writes what this rank announces of an operation where the others of this host read it: Announced is the other side.
///
/// Threads: under the set's enqueue lock.
class AnnouncementWriter {
public:
    using Atomics = base::StdAtomics;

    explicit AnnouncementWriter(const SetView& view) : view_(view) {}

    /// All but the stamp. Returns whether inputs like this rank's travel along.
    [[nodiscard]] bool fill(Place<Atomics>& place, const TensorEntry& entry, std::uint64_t generation,
                            bool with_metadata) const;
    /// Before the arrival, like the place. Other operations than alltoalls and scatters have none, and those of sets on
    /// several hosts go from rank to rank.
    void fill_splits(std::int64_t* splits, const Request& request) const {
        if (!request.splits.empty() && !view_.extent().is_led()) [[unlikely]] {
            std::copy(request.splits.begin(), request.splits.end(), splits);
        }
    }
    /// Where the call stands, if anybody wants to know. Before the stamp. Of an announcement in a slot.
    void write_site(const TensorEntry& entry) const {
        if (view_.extent().call_sites != 0) [[unlikely]] {
            write_wanted_site(entry);
        }
    }
    /// Partners: the stall monitor; with seq_cst, the members that announced directly and may be asleep.
    static void publish(Place<Atomics>& place, const TensorEntry& entry, std::uint64_t generation,
                        std::memory_order order) {
        place.announced_ns.store(entry.submitted_ns, std::memory_order_relaxed);
        place.stamp.store(generation + 1, order);
    }

private:
    void write_wanted_site(const TensorEntry& entry) const;
    [[nodiscard]] std::byte* payload_room(Place<Atomics>& place, const TensorEntry& entry, std::uint64_t generation,
                                          std::uint64_t bytes) const;

    SetView view_;
};

}  // namespace rueda::core
