// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The Rueda authors
#include "launcher/top/choose_job.hpp"

#include <fmt/format.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cctype>
#include <optional>

#include "base/files.hpp"
#include "base/numbers.hpp"
#include "base/text.hpp"
#include "launcher/hosts/hosts.hpp"
#include "launcher/jobs/job_note.hpp"
#include "launcher/options/text_parts.hpp"

namespace rueda::launcher {

namespace {

std::string ids_of(const JobList& list) {
    std::string ids;
    for (const Job& job : list.jobs) {
        ids += (ids.empty() ? "" : ", ") + job.id;
    }
    return ids;
}

bool is_meant(const Job& job, const std::string& wanted, std::optional<std::int32_t> pid) {
    if (wanted.starts_with(kTokenMark)) {
        const std::optional<LaunchedJob> launched = launched_job(job);
        return launched && launched->token == wanted.substr(kTokenMark.size());
    }
    return job.id == wanted || (pid && std::any_of(job.holders.begin(), job.holders.end(),
                                                   [pid](const Holder& holder) { return holder.pid == *pid; }));
}

/// Returns whether the process belongs to another user. Such a process may be a rank, but this program is not allowed
/// to look into it.
bool belongs_to_another_user(std::int32_t pid) {
    struct stat status {};
    return ::stat(fmt::format("/proc/{}", pid).c_str(), &status) == 0 && status.st_uid != ::geteuid();
}

/// Returns the error that says why the wanted job is not in the list.
Status not_found(const JobList& list, const std::string& wanted, std::optional<std::int32_t> pid) {
    for (const UnreadableJob& job : list.unreadable) {
        const bool has_process = pid && std::find(job.pids.begin(), job.pids.end(), *pid) != job.pids.end();
        if (wanted.empty() || job.id == wanted || has_process) {
            return failure(ErrorCode::invalid_argument, "job {} cannot be shown: {}", job.id, job.problem);
        }
    }
    if (pid && belongs_to_another_user(*pid)) {
        return failure(
            ErrorCode::invalid_argument,
            "process {} belongs to another user, or does not let itself be looked into: run rueda as the user "
            "who started the job",
            *pid);
    }
    if (list.jobs.empty()) {
        return failure(ErrorCode::invalid_argument, "no job of Rueda that belongs to you runs on this host");
    }
    return failure(ErrorCode::invalid_argument, "there is no job {} on this host; there is {} (see rueda ps)",
                   base::quote(wanted), ids_of(list));
}

}  // namespace

std::optional<LaunchedJob> parse_launched_job(std::string_view text) {
    // The token becomes an argument of a command on another host, so only what random_token() makes is accepted.
    constexpr std::size_t kLongestToken = 64;
    const std::string_view token = take_until(text, '@');
    const Result<std::vector<Host>> hosts = parse_host_option(text);
    const bool is_token = !token.empty() && token.size() <= kLongestToken &&
                          std::all_of(token.begin(), token.end(), [](unsigned char c) { return std::isalnum(c) != 0; });
    if (!is_token || !hosts.is_ok() || hosts.value().size() < 2) {
        return std::nullopt;
    }
    LaunchedJob job{std::string(token), {}};
    for (const Host& host : hosts.value()) {
        job.hosts.push_back(host.name);
    }
    return job;
}

std::optional<LaunchedJob> read_launched_job(std::string_view environment) {
    constexpr std::string_view kVariable = "RUEDARUN_JOB=";
    constexpr std::size_t kLongestValue = 65536;
    while (!environment.empty()) {
        const std::string_view entry = take_until(environment, '\0');
        if (entry.starts_with(kVariable) && entry.size() <= kLongestValue) {
            return parse_launched_job(entry.substr(kVariable.size()));
        }
    }
    return std::nullopt;
}

std::optional<LaunchedJob> launched_job(const Job& job) {
    for (const Holder& holder : job.holders) {
        if (std::optional<LaunchedJob> noted = parse_launched_job(read_job_note(holder.pid).value_or(""))) {
            return noted;
        }
        const std::optional<std::string> environment =
            base::read_small_file(fmt::format("/proc/{}/environ", holder.pid));
        if (std::optional<LaunchedJob> found = read_launched_job(environment.value_or(""))) {
            return found;
        }
    }
    return std::nullopt;
}

Result<Job> choose_job(JobList list, const std::string& wanted) {
    if (wanted.empty() && list.jobs.size() > 1) {
        return failure(ErrorCode::invalid_argument, "several jobs run on this host: name one of {} (see rueda ps)",
                       ids_of(list));
    }
    const auto pid = base::parse_integer<std::int32_t>(wanted);
    const auto job = std::find_if(list.jobs.begin(), list.jobs.end(), [&wanted, pid](const Job& candidate) {
        return wanted.empty() || is_meant(candidate, wanted, pid);
    });
    if (job == list.jobs.end()) {
        return not_found(list, wanted, pid);
    }
    return std::move(*job);
}

}  // namespace rueda::launcher
