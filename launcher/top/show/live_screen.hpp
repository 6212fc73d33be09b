// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The Rueda authors
#pragma once

#include <chrono>
#include <cstdint>
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

/// Shows the job on the terminal until the user presses q, a signal arrives, or the job ends. Returns the exit status.
[[nodiscard]] int show_live(Job& job, std::chrono::nanoseconds interval);

}  // namespace rueda::launcher
