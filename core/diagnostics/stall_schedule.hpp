// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The Rueda authors
#pragma once

#include <cstdint>
#include <optional>
#include <set>
#include <span>

#include "core/diagnostics/pending_tensors.hpp"

namespace rueda::core {

/// Decides when to report stalled tensors. A tensor is reported when it has been pending for the warning time, and
/// again after intervals of 1, 2, 4, … warning times while it is pending. If another tensor stalls in the meantime, all
/// stalled tensors are reported together, but not earlier than one warning time after the last report. After such a
/// report, the intervals start again at one warning time.
///
/// The caller passes the pending tensors to a copy of the schedule, and formats the reports that are due according to
/// the copy. Then it replaces the original schedule by the copy. Formatting a report needs memory and may fail; in this
/// case the caller keeps the original schedule, so the report stays due.
///
/// Threads: one.
class StallSchedule {
public:
    /// If `shutdown_ns` is 0, no tensor ends the job.
    StallSchedule(std::int64_t warning_ns, std::int64_t shutdown_ns)
        : warning_ns_(warning_ns), shutdown_ns_(shutdown_ns) {}

    /// The result of look(): whether a report or the end of the job is due. If both are due, the report comes first.
    struct Due {
        bool report = false;
        /// Has a value if a pending tensor must end the job: the tensor that has been pending for longest. Only one
        /// call of look() returns a value.
        std::optional<PendingTensor> shut_down_for;
    };
    /// `pending` is the result of pending_tensors(). The time must not go backwards.
    [[nodiscard]] Due look(std::span<const PendingTensor> pending, std::int64_t now_ns);

    /// Returns the time of the next call of look(). This is `interval_ns` from now, or the time to end the job if that
    /// time is earlier. Call this function after look().
    [[nodiscard]] std::int64_t next_look_ns(std::span<const PendingTensor> pending, std::int64_t now_ns,
                                            std::int64_t interval_ns) const;

    [[nodiscard]] bool is_stalled(const PendingTensor& tensor, std::int64_t now_ns) const {
        return now_ns - tensor.since_ns >= warning_ns_;
    }

private:
    [[nodiscard]] bool report_is_due(const std::set<PendingTensor::Id>& stalled, std::int64_t now_ns);

    std::int64_t warning_ns_;
    std::int64_t shutdown_ns_;
    std::set<PendingTensor::Id> reported_;  // tensors that were reported and are still stalled
    std::int64_t last_report_ns_ = 0;
    std::int64_t interval_ns_ = 0;
    bool shut_down_ = false;
};

}  // namespace rueda::core
