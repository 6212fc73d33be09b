// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The Rueda authors
#pragma once

#include <chrono>
#include <cstdint>
#include <functional>
#include <optional>
#include <vector>

#include "launcher/top/top_view.hpp"

namespace rueda::launcher {

/// An interval during which a job is watched. A sample is taken at each end of the interval. Between the two samples,
/// this object checks repeatedly what the ranks are doing. Threads: one.
class Interval {
public:
    Interval(const Job& job, Gpus& gpus, std::chrono::nanoseconds length);
    /// Begins with `last`, the second sample of the previous interval.
    Interval(const Job& job, Gpus& gpus, std::chrono::nanoseconds length, TopSample last);

    [[nodiscard]] bool is_over() const;
    /// How long the caller must wait before it calls look_if_due() again.
    [[nodiscard]] std::chrono::nanoseconds until_next_look() const;
    void look_if_due();
    /// Takes the second sample, compares it with the first one, and returns the result. After this, end() returns the
    /// second sample.
    [[nodiscard]] TopView finish();
    [[nodiscard]] const TopSample& end() const { return end_; }

private:
    const Job& job_;
    Gpus& gpus_;
    std::int64_t end_ns_;
    std::int64_t look_ns_;
    std::int64_t next_look_ns_;
    TopSample begin_;
    TopSample end_;
    std::vector<std::vector<Look>> looks_;
};

/// Watches a job in one interval after another. The first interval is short, so that the user soon sees a first result.
/// Threads: one.
class JobWatch {
public:
    /// Waits for at most this time. Returns false if the watch should end.
    using Wait = std::function<bool(std::chrono::nanoseconds)>;

    /// The job must outlive this object.
    JobWatch(Job& job, std::chrono::nanoseconds interval) : job_(job), interval_(interval) {}

    /// Returns what the job did during the next interval, or nothing if `wait` returned false.
    [[nodiscard]] std::optional<TopView> next(const Wait& wait);

private:
    Job& job_;
    Gpus gpus_;
    std::chrono::nanoseconds interval_;
    std::optional<TopSample> last_;  ///< the second sample of the last interval
};

}  // namespace rueda::launcher
