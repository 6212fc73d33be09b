// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The Rueda authors
#pragma once

#include <array>
#include <cstdint>
#include <vector>

#include "tests/support/explorer/operation.hpp"

namespace rueda::explorer {

/// Knows which transitions (steps of a process) of a schedule happened before which others. A transition happens before
/// later transitions of the same process, and before later transitions that conflict with it. With add_cause(), the
/// caller can add further orders. A thread does not conflict with its own store buffer, because a load returns the same
/// value before and after the buffer is flushed.
class Causality {
public:
    using Clock = VectorClock<kMaxProcesses>;

    void clear();
    /// Returns the earlier transitions that race with the present transition of `process`, which is not recorded yet.
    /// An earlier transition races if it conflicts with the present one and nothing else orders the two.
    [[nodiscard]] std::vector<std::uint32_t> races(std::size_t process, const Footprint& footprint) const;
    /// Returns the processes that could move just before `event` in another schedule. In that schedule, `event` is
    /// replaced by all later transitions that do not depend on it, and then by the present transition of `process`.
    /// The result has each process that can make the first of these transitions.
    [[nodiscard]] ProcessSet initials(std::uint32_t event, std::size_t process, const Footprint& footprint) const;
    /// Records the next transition of the schedule.
    void record(std::size_t process, const Footprint& footprint);

    /// Adds an order: `event` counts as before the next transition of `process`.
    void add_cause(std::size_t process, std::uint32_t event) { known_[process].join(events_[event].clock); }
    void add_process_as_cause(std::size_t process, std::size_t cause) { known_[process].join(known_[cause]); }
    void add_writes_as_cause(std::size_t process, std::uint32_t location);

private:
    struct Event {
        std::size_t process;
        Footprint footprint;
        // For each process: the number of the last transition that is known of the process, plus 1.
        Clock clock;
    };
    struct Location {
        std::array<std::uint32_t, kMaxProcesses> last_read{};   // number of the transition + 1
        std::array<std::uint32_t, kMaxProcesses> last_write{};  // number of the transition + 1
    };
    [[nodiscard]] bool is_before(std::uint32_t earlier, const Clock& clock) const {
        return clock.covers(events_[earlier].process, earlier + 1);
    }
    [[nodiscard]] static bool same_thread(std::size_t a, std::size_t b) { return thread_of(a) == thread_of(b); }
    [[nodiscard]] static std::uint32_t last_conflict(const Location& location, std::size_t process, bool writes);

    std::array<Clock, kMaxProcesses> known_{};
    std::vector<Event> events_;
    std::vector<Location> locations_;
};

}  // namespace rueda::explorer
