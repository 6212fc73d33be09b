// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The Rueda authors
#pragma once

#include <chrono>
#include <optional>

namespace rueda::launcher {

/// Decides when the ranks that still run get which signal. A pure state machine: it reads no clock and sends nothing.
///
///   running ──a rank failed──▶ grace ──time──▶ terminating (SIGTERM) ──time──▶ killing (SIGKILL) ──time──▶ given up
///      │──the job was aborted──▶ the same, with another length of the grace until a rank fails by itself
///      └──the user's signal──▶ interrupted (that signal) ──time, or a second signal──▶ killing
class JobEnding {
public:
    using TimePoint = std::chrono::steady_clock::time_point;

    /// From the user's first signal to SIGKILL.
    static constexpr std::chrono::seconds kInterruptTime{5};
    /// From SIGTERM to SIGKILL after a failure.
    static constexpr std::chrono::seconds kTerminateTime{2};
    /// From SIGKILL to giving up. SIGKILL works at once, unless the kernel holds the process in a system call.
    static constexpr std::chrono::seconds kKillTime{2};

    JobEnding(std::chrono::milliseconds grace, std::chrono::milliseconds grace_after_abort)
        : grace_(grace), grace_after_abort_(grace_after_abort) {}

    /// A rank failed by itself. The others now get time to report that and to end. If the grace after an abort runs
    /// already, it becomes the grace after a failure with the same beginning, so that the order of the reports makes no
    /// difference.
    void rank_failed(TimePoint now);
    /// A rank ended because the job was aborted. All other ranks have been notified.
    void job_aborted(TimePoint now);
    /// The user sent `signal_number` to ruedarun. Returns the signal to send to the ranks.
    [[nodiscard]] int user_signal(int signal_number, TimePoint now);
    /// The signal that is due now, if one is.
    [[nodiscard]] std::optional<int> advance(TimePoint now);
    /// The time at which advance() has to be called again.
    [[nodiscard]] std::optional<TimePoint> deadline() const;
    /// Even SIGKILL has not ended all ranks, and ruedarun should stop waiting for them.
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
