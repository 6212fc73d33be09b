// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The Rueda authors
#include "launcher/top/merge_hosts.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <utility>

#include "launcher/jobs/job_table.hpp"
#include "launcher/top/screen.hpp"

namespace rueda::launcher {

namespace {

/// A host is marked as late if its newest view is older than kLateIntervals intervals, and also older than one interval
/// plus kLeastLateNs. (The view of a busy host always comes a little late.)
constexpr std::int64_t kLateIntervals = 3;
constexpr std::int64_t kLeastLateNs = 3'000'000'000;

/// Adds the ranks of one host to the view of all hosts.
void add_host(TopView& all, const std::string& host, const std::string& label, TopView one) {
    all.job.id += fmt::format("{}{} on {}", all.job.id.empty() ? "" : ", ", one.job.id, host);
    all.job.program = all.job.program.empty() ? one.job.program : all.job.program;
    if (one.job.was_aborted && !all.job.was_aborted) {
        all.job.was_aborted = true;
        all.job.abort_reason = one.job.abort_reason;
    }
    all.job.ranks.insert(all.job.ranks.end(), one.job.ranks.begin(), one.job.ranks.end());
    all.interval_seconds = std::max(all.interval_seconds, one.interval_seconds);
    all.has_gpus = all.has_gpus || one.has_gpus;
    for (RankRow& row : one.rows) {
        row.host = label;
        all.rows.push_back(std::move(row));
    }
}

void sort_by_rank(TopView& view) {
    std::stable_sort(view.rows.begin(), view.rows.end(),
                     [](const RankRow& left, const RankRow& right) { return left.rank < right.rank; });
}

bool is_late(const HostPicture& picture, std::int64_t now_ns, std::int64_t interval_ns) {
    const std::int64_t age = now_ns - picture.arrived_ns;
    return age > std::max(kLateIntervals * interval_ns, interval_ns + kLeastLateNs);
}

}  // namespace

TopView merge_hosts(std::span<const HostAnswer> answers) {
    TopView all;
    for (const HostAnswer& answer : answers) {
        Result<TopView> one = answer.problem.empty() ? view_from_json(answer.json)
                                                     : failure(ErrorCode::invalid_argument, "{}", answer.problem);
        if (one.is_ok()) {
            add_host(all, answer.host, answer.host, std::move(one).value());
        } else {
            all.problems.push_back(fmt::format("Host {} is not shown: {}", answer.host, one.status().message()));
        }
    }
    sort_by_rank(all);
    return all;
}

TopView merge_pictures(std::span<const HostPicture> pictures, std::int64_t now_ns, std::int64_t interval_ns) {
    TopView all;
    for (const HostPicture& picture : pictures) {
        const std::string age = format_age(static_cast<double>(now_ns - picture.arrived_ns) * 1e-9);
        if (picture.is_over) {
            all.problems.push_back(describe_end(picture));
            continue;
        }
        if (!picture.problem.empty()) {
            all.problems.push_back(fmt::format("Host {}: {}", picture.host, picture.problem));
        }
        if (!picture.view) {
            all.problems.push_back(fmt::format("Host {} has not answered yet, after {}", picture.host, age));
            continue;
        }
        std::string label = picture.host;
        if (is_late(picture, now_ns, interval_ns)) {
            label += fmt::format(" ({} old)", age);
            all.problems.push_back(fmt::format("Host {} does not answer: its rows are {} old", picture.host, age));
        }
        add_host(all, picture.host, label, *picture.view);
    }
    sort_by_rank(all);
    return all;
}

std::string describe_end(const HostPicture& picture) {
    return fmt::format("Host {} is not shown{}: {}", picture.host, picture.view ? " any more" : "",
                       picture.problem.empty() ? "its rueda has ended" : picture.problem);
}

}  // namespace rueda::launcher
