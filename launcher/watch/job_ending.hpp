// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The Rueda authors
#pragma once

#include <chrono>
#include <optional>

namespace rueda::launcher {

/// When which signal goes to the ranks that still run. A pure state machine: it knows neither clock nor process.
///
///   running ──a rank failed──▶ grace ──time──▶ terminating (SIGTERM) ──time──▶ killing (SIGKILL) ──time──▶ given up
///      │──the job was aborted──▶ the same, with a grace of its own as long as no rank failed of itself
///      └──the user's signal──▶ interrupted (that signal) ──time, or a second signal──▶ killing
class JobEnding {
public:
    using TimePoint = std::chrono::steady_clock::time_point;

    /// From the user's first signal to SIGKILL.
    static constexpr std::chrono::seconds kInterruptTime{5};
    /// From SIGTERM to SIGKILL after a failure.
    static constexpr std::chrono::seconds kTerminateTime{2};
    /// SIGKILL works at once, but for a process that the kernel holds in a system call.
    static constexpr std::chrono::seconds kKillTime{2};

    JobEnding(std::chrono::milliseconds grace, std::chrono::milliseconds grace_after_abort)
        : grace_(grace), grace_after_abort_(grace_after_abort) {}

    /// A rank failed of itself: the others may report it and end themselves. If the grace after an abort runs already,
    /// it becomes the one after a failure, counted from the same begin, so that the order of the reports makes no
    /// difference.
    void rank_failed(TimePoint now);
    /// A rank ended because the job was aborted. All others have been told.
    void job_aborted(TimePoint now);
    /// The signal to hand to the ranks.
    [[nodiscard]] int user_signal(int signal_number, TimePoint now);
    /// The signal that is due now, if one is.
    [[nodiscard]] std::optional<int> advance(TimePoint now);
    /// When advance() is to be called again.
    [[nodiscard]] std::optional<TimePoint> deadline() const;
    /// Even SIGKILL has not ended all ranks: do not wait for them any longer.
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
