// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The Rueda authors
#pragma once

#include <chrono>
#include <optional>

namespace rueda::launcher {

/// Whether a signal of this number, sent to a job, is meant to end its programs.
[[nodiscard]] bool ends_programs(int signal_number);

/// Decides when the remaining ranks of a job get a signal, and which signal. It is a pure state machine: it reads no
/// clock and sends no signals.
///
///   running ──a rank failed──▶ grace ──time──▶ terminating (SIGTERM) ──time──▶ killing (SIGKILL) ──time──▶ given up
///      │──the job was aborted──▶ grace of another length, then the same phases
///      └──the user's signal──▶ interrupted (that signal) ──time, or a second signal──▶ killing
class JobEnding {
public:
    using TimePoint = std::chrono::steady_clock::time_point;

    /// How long ranks have between the user's first signal and SIGKILL.
    static constexpr std::chrono::seconds kInterruptTime{5};
    /// How long ranks have between SIGTERM and SIGKILL after a failure.
    static constexpr std::chrono::seconds kTerminateTime{2};
    /// How long ruedarun waits after SIGKILL before it gives up. SIGKILL works at once, unless the process is in a
    /// system call that cannot be interrupted.
    static constexpr std::chrono::seconds kKillTime{2};

    JobEnding(std::chrono::milliseconds grace, std::chrono::milliseconds grace_after_abort)
        : grace_(grace), grace_after_abort_(grace_after_abort) {}

    /// Call this when a rank failed by itself. The other ranks then get time (the grace) to report the failure and to
    /// end. If job_aborted() was called before, the grace has begun already. Then only its length changes, to that of a
    /// grace after a failure. So the order of the two calls does not matter.
    void rank_failed(TimePoint now);
    /// Call this when a rank ended because the job was aborted. All other ranks must have been notified before.
    void job_aborted(TimePoint now);
    /// Call this when the user sent `signal_number` to ruedarun. Returns the signal that the ranks must get.
    [[nodiscard]] int user_signal(int signal_number, TimePoint now);
    /// Returns the signal that the ranks must get now, or nothing.
    [[nodiscard]] std::optional<int> advance(TimePoint now);
    /// When advance() must be called again.
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
