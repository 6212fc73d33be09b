// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The Rueda authors
#pragma once

#include <cstdint>
#include <map>

namespace rueda::tests::gpu {

/// A stream of one process, or the host program of one process. All threads of a host program are one actor, because
/// the stand-in cannot see how they synchronise with each other; ThreadSanitizer checks their synchronisation.
using Actor = std::uint64_t;
using Time = std::uint64_t;

/// A vector clock: for each actor, the time of the actor's last step that is ordered before this point. A step of actor
/// A at time T is ordered before a point if and only if the point's clock has at least T for A.
class Clock {
public:
    [[nodiscard]] Time at(Actor actor) const {
        const auto found = times_.find(actor);
        return found == times_.end() ? 0 : found->second;
    }
    /// Adds the steps that are ordered before `other`, so that they are also ordered before this point.
    void join(const Clock& other) {
        for (const auto& [actor, time] : other.times_) {
            raise(actor, time);
        }
    }
    void raise(Actor actor, Time time) {
        Time& own = times_[actor];
        own = own < time ? time : own;
    }
    Time advance(Actor actor) { return ++times_[actor]; }
    [[nodiscard]] const std::map<Actor, Time>& times() const { return times_; }

private:
    std::map<Actor, Time> times_;
};

}  // namespace rueda::tests::gpu
