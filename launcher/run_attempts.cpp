// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The Rueda authors
#include "launcher/run_attempts.hpp"

#include <fmt/format.h>

#include <chrono>
#include <cstdio>
#include <string>
#include <thread>

#include "launcher/plan/surroundings.hpp"
#include "launcher/repeated_steps.hpp"
#include "launcher/run_job.hpp"

namespace rueda::launcher {

namespace {

/// If an attempt was shorter than kShortAttempt, ruedarun pauses before it restarts the job. Otherwise a job that
/// always fails at once would keep the machine busy.
constexpr std::chrono::seconds kShortAttempt{10};
constexpr std::chrono::seconds kPause{1};

double seconds_of(std::chrono::milliseconds time) { return std::chrono::duration<double>(time).count(); }

void sum_up(int attempts, std::chrono::milliseconds lost, const RepeatedSteps& steps, int exit_status) {
    const std::string again =
        steps.are_known() ? fmt::format("; {} of {} steps were done again", steps.count(), steps.reached() + 1) : "";
    fmt::print(stderr, "ruedarun: the job was started {} times and {}; {:.1f} s went into attempts that failed{}\n",
               attempts, exit_status == 0 ? "ended well" : "failed", seconds_of(lost), again);
}

/// Returns, for example, "12.0 s are lost, in step 17".
std::string lost_text(const JobReport& report) {
    return fmt::format("{:.1f} s are lost{}", seconds_of(report.duration),
                       report.steps.is_known() ? fmt::format(", in step {}", report.steps.last) : "");
}

}  // namespace

int run_attempts(const Options& options, Surroundings surroundings, LaunchPlan plan, const std::string& program_file) {
    std::chrono::milliseconds lost{0};
    RepeatedSteps steps;
    while (true) {
        const JobReport report = run_job(plan, surroundings, program_file);
        steps.add(report.steps, report.exit_status == 0);
        if (report.exit_status != 0) {
            lost += report.duration;
        }
        const bool again = report.may_start_again && surroundings.attempt < options.max_restarts;
        if (!again) {
            if (surroundings.attempt > 0) {
                sum_up(surroundings.attempt + 1, lost, steps, report.exit_status);
            }
            return report.exit_status;
        }
        ++surroundings.attempt;
        fmt::print(stderr, "ruedarun: {}; starting the job again ({} of at most {} times)\n", lost_text(report),
                   surroundings.attempt, options.max_restarts);
        if (report.duration < kShortAttempt) {
            std::this_thread::sleep_for(kPause);
        }
        Status renamed = rename_sockets(surroundings);
        Result<LaunchPlan> next = renamed.is_ok() ? make_plan(options, surroundings) : renamed;
        if (!next.is_ok()) {
            fmt::print(stderr, "ruedarun: {}\n", next.status().message());
            return report.exit_status;
        }
        plan = std::move(next).value();
    }
}

}  // namespace rueda::launcher
