// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The Rueda authors
#pragma once

#include <chrono>
#include <optional>

namespace rueda::launcher {

/// Decides which signals the ranks that still run get, and when. It is a pure state machine: it reads no clock and
/// sends no signals.
///
///   running ──a rank failed──▶ grace ──time──▶ terminating (SIGTERM) ──time──▶ killing (SIGKILL) ──time──▶ given up
///      │──the job was aborted──▶ the same, with another length of the grace until a rank fails by itself
///      └──the user's signal──▶ interrupted (that signal) ──time, or a second signal──▶ killing
class JobEnding {
public:
    using TimePoint = std::chrono::steady_clock::time_point;

    /// The time from the user's first signal to SIGKILL.
    static constexpr std::chrono::seconds kInterruptTime{5};
    /// The time from SIGTERM to SIGKILL after a failure.
    static constexpr std::chrono::seconds kTerminateTime{2};
    /// The time from SIGKILL until ruedarun stops waiting. SIGKILL works at once, except if the process is inside a
    /// system call that cannot be interrupted.
    static constexpr std::chrono::seconds kKillTime{2};

    JobEnding(std::chrono::milliseconds grace, std::chrono::milliseconds grace_after_abort)
        : grace_(grace), grace_after_abort_(grace_after_abort) {}

    /// Call this when a rank failed by itself. The other ranks then get time to report the failure and to end. If the
    /// grace after an abort has already begun, it is replaced by the grace after a failure, counted from the same
    /// moment. So the order of the two reports makes no difference.
    void rank_failed(TimePoint now);
    /// Call this when a rank ended because the job was aborted, after all other ranks were notified.
    void job_aborted(TimePoint now);
    /// Call this when the user sent `signal_number` to ruedarun. Returns the signal to send to the ranks.
    [[nodiscard]] int user_signal(int signal_number, TimePoint now);
    /// Returns the signal to send now. Returns nothing if no signal is due.
    [[nodiscard]] std::optional<int> advance(TimePoint now);
    /// The time at which advance() must be called again.
    [[nodiscard]] std::optional<TimePoint> deadline() const;
    /// Whether ruedarun should stop waiting for ranks, because even SIGKILL has not ended them.
    [[nodiscard]] bool gave_up() const { return phase_ == Phase::given_up; }

private:
    enum class Phase { running, grace, interrupted, terminating, killing, given_up };

    void enter(Phase phase, TimePoint until) {
        phase_ = phase;
        deadline_ = until;
    }

    void begin_grace(TimePoint now, std::chrono::milliseconds length) {
        grace_began_ = now;
        enter(Phase::grace, now + length);
    }

    std::chrono::milliseconds grace_;
    std::chrono::milliseconds grace_after_abort_;
    Phase phase_ = Phase::running;
    TimePoint grace_began_;
    TimePoint deadline_;
};

}  // namespace rueda::launcher
