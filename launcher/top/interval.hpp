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

/// An interval during which a job is watched: a sample at each end, and looks in between. Threads: one.
class Interval {
public:
    Interval(const Job& job, Gpus& gpus, std::chrono::nanoseconds length);
    /// Begins with the sample with which `last` ended.
    Interval(const Job& job, Gpus& gpus, std::chrono::nanoseconds length, TopSample last);

    [[nodiscard]] bool is_over() const;
    /// How long to wait before look_if_due() is called again.
    [[nodiscard]] std::chrono::nanoseconds until_next_look() const;
    void look_if_due();
    /// Takes the second sample, which end() then has, and compares.
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

/// Watches a job interval after interval. The first interval is short, so that the first picture comes early.
/// Threads: one.
class JobWatch {
public:
    /// Waits for this time, or for less. Returns false if the watch shall end.
    using Wait = std::function<bool(std::chrono::nanoseconds)>;

    /// The job must outlive this object.
    JobWatch(Job& job, std::chrono::nanoseconds interval) : job_(job), interval_(interval) {}

    /// Returns the job during the next interval, or nothing if `wait` returned false.
    [[nodiscard]] std::optional<TopView> next(const Wait& wait);

private:
    Job& job_;
    Gpus gpus_;
    std::chrono::nanoseconds interval_;
    std::optional<TopSample> last_;  ///< the end of the last interval
};

}  // namespace rueda::launcher
