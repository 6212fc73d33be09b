// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The Rueda authors
#pragma once

#include <array>
#include <cstdint>
#include <vector>

#include "tests/support/explorer/operation.hpp"

namespace rueda::explorer {

/// Knows which transitions of a schedule happened before which other transitions. The order follows from the order
/// within a process, from conflicting footprints, and from causes that the caller adds. A transition of a thread does
/// not conflict with a transition of the thread's own buffer, because a load sees the same value before and after the
/// flush.
class Causality {
public:
    using Clock = VectorClock<kMaxProcesses>;

    void clear();
    /// Returns the transitions that race with the present transition of `process`, which is not recorded yet. They
    /// conflict with it, and only this conflict orders them before it.
    [[nodiscard]] std::vector<std::uint32_t> races(std::size_t process, const Footprint& footprint) const;
    /// Considers the schedule before `event`, followed by the later transitions that do not depend on `event`, and the
    /// present transition of `process`. Returns the processes that could have moved first in this continuation.
    [[nodiscard]] ProcessSet initials(std::uint32_t event, std::size_t process, const Footprint& footprint) const;
    /// Records the next transition of the schedule.
    void record(std::size_t process, const Footprint& footprint);

    /// Adds the rule that the next transition of `process` comes after `event`.
    void add_cause(std::size_t process, std::uint32_t event) { known_[process].join(events_[event].clock); }
    void add_process_as_cause(std::size_t process, std::size_t cause) { known_[process].join(known_[cause]); }
    void add_writes_as_cause(std::size_t process, std::uint32_t location);

private:
    struct Event {
        std::size_t process;
        Footprint footprint;
        Clock clock;  // for each process: 1 + the number of its last known transition
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
