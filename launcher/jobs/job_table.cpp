// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The Rueda authors
#include "launcher/jobs/job_table.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <nlohmann/json.hpp>
#include <set>

#include "base/text.hpp"
#include "launcher/jobs/columns.hpp"

namespace rueda::launcher {

namespace {

using Json = nlohmann::ordered_json;

/// The maximum length of a command line in the table. Longer ones are cut, so that the state after them stays visible.
constexpr std::size_t kTableProgramBytes = 40;

std::vector<std::int32_t> ranks_of(const JobSample& job) {
    std::vector<std::int32_t> ranks;
    for (const RankSample& rank : job.ranks) {
        ranks.push_back(rank.rank);
    }
    return ranks;
}

/// Returns the numbers of the ranks' processes in the order of the ranks. Each number occurs only once, although
/// several ranks may be threads of one process.
std::vector<std::int32_t> pids_of(const JobSample& job) {
    std::vector<std::int32_t> pids;
    std::set<std::int32_t> seen;
    for (const RankSample& rank : job.ranks) {
        if (rank.process && seen.insert(rank.pid).second) {
            pids.push_back(rank.pid);
        }
    }
    return pids;
}

/// Formats numbers in the order of the list. A sequence of consecutive numbers becomes a range.
std::string format_in_order(const std::vector<std::int32_t>& numbers) {
    std::string text;
    for (std::size_t begin = 0; begin < numbers.size();) {
        std::size_t end = begin + 1;
        while (end < numbers.size() &&
               std::int64_t{numbers[end]} - numbers[begin] == static_cast<std::int64_t>(end - begin)) {
            ++end;
        }
        text += text.empty() ? "" : ",";
        text += end == begin + 1   ? fmt::format("{}", numbers[begin])
                : end == begin + 2 ? fmt::format("{},{}", numbers[begin], numbers[begin + 1])
                                   : fmt::format("{}-{}", numbers[begin], numbers[end - 1]);
        begin = end;
    }
    return text.empty() ? "-" : text;
}

std::string state_of(const JobSample& job) {
    std::string text = name_of(job.state());
    return job.was_aborted ? text + ": " + job.abort_reason : text;
}

Json json_of(const JobSample& job) {
    Json steps = nullptr;
    for (const RankSample& rank : job.ranks) {
        if (rank.step >= 0) {
            steps = steps.is_null() ? Json(rank.step) : Json(std::min(rank.step, steps.get<std::int64_t>()));
        }
    }
    return {{"id", job.id},
            {"ranks", ranks_of(job)},
            {"pids", pids_of(job)},
            {"step", steps},
            {"age_seconds", job.age_seconds()},
            {"program", job.program},
            {"state", name_of(job.state())},
            {"abort_reason", job.was_aborted ? Json(job.abort_reason) : Json(nullptr)}};
}

}  // namespace

std::string format_numbers(std::vector<std::int32_t> numbers) {
    std::sort(numbers.begin(), numbers.end());
    return format_in_order(numbers);
}

std::string format_age(double seconds) {
    const auto total = static_cast<std::int64_t>(std::max(0.0, seconds));
    constexpr std::int64_t kMinute = 60;
    constexpr std::int64_t kHour = 60 * kMinute;
    constexpr std::int64_t kDay = 24 * kHour;
    return total < kMinute ? fmt::format("{}s", total)
           : total < kHour ? fmt::format("{}m{:02}s", total / kMinute, total % kMinute)
           : total < kDay  ? fmt::format("{}h{:02}m", total / kHour, total % kHour / kMinute)
                           : fmt::format("{}d{:02}h", total / kDay, total % kDay / kHour);
}

std::string format_steps(const JobSample& job) {
    std::int64_t lowest = -1;
    std::int64_t highest = -1;
    for (const RankSample& rank : job.ranks) {
        if (rank.step >= 0) {
            lowest = lowest < 0 ? rank.step : std::min(lowest, rank.step);
            highest = std::max(highest, rank.step);
        }
    }
    return lowest < 0 ? "-" : lowest == highest ? fmt::format("{}", lowest) : fmt::format("{}-{}", lowest, highest);
}

std::string describe_jobs(std::span<const JobSample> jobs, std::span<const UnreadableJob> unreadable) {
    if (jobs.empty() && unreadable.empty()) {
        return "No job of Rueda that belongs to you runs on this host.\n";
    }
    std::string text;
    if (!jobs.empty()) {
        const std::vector<Column> columns = {{"JOB"},       {"RANKS"},   {"PIDS"}, {"STEP", /*is_right=*/true},
                                             {"AGE", true}, {"PROGRAM"}, {"STATE"}};
        std::vector<std::vector<std::string>> rows;
        for (const JobSample& job : jobs) {
            rows.push_back({job.id, format_numbers(ranks_of(job)), format_in_order(pids_of(job)), format_steps(job),
                            format_age(job.age_seconds()), base::shortened(job.program, kTableProgramBytes),
                            state_of(job)});
        }
        for (const std::string& line : lay_out(columns, rows)) {
            text += line + "\n";
        }
    }
    for (const UnreadableJob& job : unreadable) {
        text += fmt::format("{} (process {}) cannot be shown: {}\n", job.id, format_numbers(job.pids), job.problem);
    }
    return text;
}

std::string jobs_as_json(std::span<const JobSample> jobs, std::span<const UnreadableJob> unreadable) {
    Json document = {{"jobs", Json::array()}, {"unreadable", Json::array()}};
    for (const JobSample& job : jobs) {
        document["jobs"].push_back(json_of(job));
    }
    for (const UnreadableJob& job : unreadable) {
        document["unreadable"].push_back({{"id", job.id}, {"pids", job.pids}, {"problem", job.problem}});
    }
    return document.dump(2) + "\n";
}

}  // namespace rueda::launcher
