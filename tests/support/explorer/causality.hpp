// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The Rueda authors
#pragma once

#include <array>
#include <cstdint>
#include <vector>

#include "tests/support/explorer/operation.hpp"

namespace rueda::explorer {

/// Which transitions of a schedule happened before which others. The order follows from the order within a process,
/// from conflicting footprints, and from causes that the caller adds. A transition of a thread and its own buffer do
/// not conflict: a load before or after the flush sees the same value.
class Causality {
public:
    using Clock = VectorClock<kMaxProcesses>;

    void clear();
    /// The transitions that race with what `process` did now (not yet recorded). They conflict with it, and only the
    /// conflict orders them before it.
    [[nodiscard]] std::vector<std::uint32_t> races(std::size_t process, const Footprint& footprint) const;
    /// Considers the schedule as it was before `event`, without the transitions that came after `event` because of it.
    /// Returns the processes that could have moved first on the way to what `process` did now.
    [[nodiscard]] ProcessSet initials(std::uint32_t event, std::size_t process, const Footprint& footprint) const;
    /// Records the next transition of the schedule.
    void record(std::size_t process, const Footprint& footprint);

    /// Says that the next transition of `process` comes after `event`.
    void add_cause(std::size_t process, std::uint32_t event) { known_[process].join(events_[event].clock); }
    void add_process_as_cause(std::size_t process, std::size_t cause) { known_[process].join(known_[cause]); }
    void add_writes_as_cause(std::size_t process, std::uint32_t location);

private:
    struct Event {
        std::size_t process;
        Footprint footprint;
        Clock clock;  // for process p: the number of its last known transition + 1
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
