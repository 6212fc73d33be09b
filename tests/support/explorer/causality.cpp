// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The Rueda authors
#include "tests/support/explorer/causality.hpp"

#include <algorithm>

namespace rueda::explorer {

void Causality::clear() {
    known_ = {};
    events_.clear();
    locations_.clear();
}

std::uint32_t Causality::last_conflict(const Location& location, std::size_t process, bool writes) {
    return writes ? std::max(location.last_write[process], location.last_read[process]) : location.last_write[process];
}

std::vector<std::uint32_t> Causality::races(std::size_t process, const Footprint& footprint) const {
    std::vector<std::uint32_t> candidates;
    for (const Access& access : footprint) {
        for (std::size_t other = 0; access.location < locations_.size() && other < kMaxProcesses; ++other) {
            const std::uint32_t last = last_conflict(locations_[access.location], other, access.writes);
            if (last != 0 && !same_thread(other, process) && !known_[process].covers(other, last)) {
                candidates.push_back(last - 1);
            }
        }
    }
    std::vector<std::uint32_t> result;
    for (const std::uint32_t one : candidates) {
        const bool is_direct = std::none_of(candidates.begin(), candidates.end(), [&](std::uint32_t other) {
            return other != one && is_before(one, events_[other].clock);
        });
        if (is_direct) {
            result.push_back(one);
        }
    }
    return result;
}

ProcessSet Causality::initials(std::uint32_t event, std::size_t process, const Footprint& footprint) const {
    ProcessSet seen = 0;
    ProcessSet result = 0;
    bool process_waits = false;
    for (std::uint32_t later = event + 1; later < events_.size(); ++later) {
        const Event& candidate = events_[later];
        if (is_before(event, candidate.clock)) {
            continue;
        }
        bool waits = contains(seen, candidate.process);
        for (std::size_t other = 0; other < kMaxProcesses; ++other) {
            waits = waits || (other != candidate.process && candidate.clock.at[other] > event + 1);
        }
        result |= waits ? 0 : only(candidate.process);
        seen |= only(candidate.process);
        process_waits = process_waits || is_before(later, known_[process]) ||
                        (!same_thread(candidate.process, process) && conflict(candidate.footprint, footprint));
    }
    return process_waits ? result : result | only(process);
}

void Causality::record(std::size_t process, const Footprint& footprint) {
    const auto number = static_cast<std::uint32_t>(events_.size());
    Clock clock = known_[process];
    for (const Access& access : footprint) {
        if (access.location >= locations_.size()) {
            locations_.resize(access.location + 1);
        }
        Location& location = locations_[access.location];
        for (std::size_t other = 0; other < kMaxProcesses; ++other) {
            const std::uint32_t last = last_conflict(location, other, access.writes);
            if (last != 0 && !same_thread(other, process)) {
                clock.join(events_[last - 1].clock);
            }
        }
    }
    for (const Access& access : footprint) {
        Location& location = locations_[access.location];
        (access.writes ? location.last_write : location.last_read)[process] = number + 1;
    }
    clock.at[process] = number + 1;
    known_[process] = clock;
    events_.push_back({process, footprint, clock});
}

void Causality::add_writes_as_cause(std::size_t process, std::uint32_t location) {
    for (std::size_t other = 0; location < locations_.size() && other < kMaxProcesses; ++other) {
        const std::uint32_t last = locations_[location].last_write[other];
        if (last != 0 && !same_thread(other, process)) {
            known_[process].join(events_[last - 1].clock);
        }
    }
}

}  // namespace rueda::explorer
