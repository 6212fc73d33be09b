// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The Rueda authors
#pragma once

#include <algorithm>
#include <cstdint>
#include <string>

#include "base/settings/config.hpp"
#include "core/diagnostics/seconds.hpp"
#include "core/diagnostics/stall_schedule.hpp"

namespace rueda::core {

/// The settings about stalled operations, in the units that the stall monitor uses.
struct StallSettings {
    /// The shortest time after which a silent thread counts as not responding. Even on a busy machine, the system gives
    /// a core to a runnable thread within this time.
    static constexpr std::int64_t kShortestSilence = 2 * kSecond;

    explicit StallSettings(const base::Config& config)
        : enabled(config.stall_check),
          warning_seconds(config.stall_warning_seconds),
          shutdown_seconds(config.stall_shutdown_seconds),
          look_interval_ns(std::min(warning_ns() / 4, kSecond)),
          // A background thread writes its heartbeat once per liveness interval (0.2 s by default). If three heartbeats
          // are missing, the thread is not just a little late.
          silence_limit_ns(std::max(kShortestSilence, 3 * nanoseconds(config.liveness_seconds))),
          host(config.hostname) {}

    [[nodiscard]] std::int64_t warning_ns() const { return nanoseconds(warning_seconds); }
    /// When an operation has been pending for this time, the ranks that do not write the report end the job. The rank
    /// that writes the report ends the job earlier, after RUEDA_STALL_SHUTDOWN_TIME_SECONDS. The difference is 1.5
    /// seconds, because that rank may need a second to write its file.
    [[nodiscard]] std::int64_t ends_job_for_others_ns() const {
        return nanoseconds(shutdown_seconds) + 3 * kSecond / 2;
    }
    /// Whether the report about an operation that has been pending since `since_ns` can wait for the ranks' stacks.
    /// When RUEDA_STALL_SHUTDOWN_TIME_SECONDS are over, every rank ends the job by itself. The report must be printed
    /// before that, with or without stacks.
    [[nodiscard]] bool has_time_for_stacks(std::int64_t since_ns, std::int64_t now_ns) const {
        constexpr std::int64_t kToPrintNs = kSecond / 2;
        return shutdown_seconds == 0 || now_ns + kToPrintNs < since_ns + nanoseconds(shutdown_seconds);
    }
    [[nodiscard]] StallSchedule schedule() const { return {warning_ns(), nanoseconds(shutdown_seconds)}; }

    bool enabled;
    double warning_seconds;
    double shutdown_seconds;  ///< 0 if stalled operations never end the job
    /// the interval between checks; a quarter of the warning time, but at most a second
    std::int64_t look_interval_ns;
    std::int64_t silence_limit_ns;  ///< a background thread without a heartbeat for this time counts as not responding
    std::string host;               ///< this host's name in texts for people; "" if it is not known
};

}  // namespace rueda::core
