// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The Rueda authors
#include "launcher/activity/look.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <filesystem>
#include <optional>
#include <string>
#include <system_error>

#include "base/files.hpp"
#include "base/system/clock.hpp"
#include "base/system/process_status.hpp"

namespace rueda::launcher {

namespace {

/// How many of a rank's newest records are searched for an operation that has not ended. While a timeline is written,
/// the record of an operation can be followed by up to 17 records of the operation's parts. So this number must be
/// greater than 17.
constexpr std::size_t kLookedAtOperations = 64;

/// The maximum number of threads of a process whose state is read. Each thread costs about 10 us of processor time.
/// /proc lists the oldest threads first. These are the threads that compute, because programs create their thread pools
/// at the beginning.
constexpr int kLookedAtThreads = 64;

bool is_pending(const base::RecordedOperation& operation) {
    const bool occupies_rank = base::RecordKind::is_collective(operation.kind) ||
                               (base::RecordKind::is_message(operation.kind) && operation.is_blocking);
    return occupies_rank && !operation.ended_ns && !operation.launched_ns;
}

bool runs(char state) { return state != 'S' && state != 'D'; }

/// Whether one of the process's oldest threads (kLookedAtThreads) runs on a core or waits for a core. The main thread
/// does not count.
bool has_running_thread(std::int32_t pid) {
    const std::string main_thread = fmt::format("{}", pid);
    std::error_code error;
    std::filesystem::directory_iterator thread(fmt::format("/proc/{}/task", pid), error);
    for (int count = 0; !error && thread != std::filesystem::directory_iterator() && count < kLookedAtThreads;
         ++count) {
        if (thread->path().filename() != main_thread) {
            const std::optional<std::string> text = base::read_small_file((thread->path() / "stat").string());
            const auto status = text ? base::parse_process_status(*text) : std::nullopt;
            if (status && status->state == 'R') {
                return true;
            }
        }
        thread.increment(error);
    }
    return false;
}

std::optional<Activity> activity_of(const Job& job, const RankSample& rank) {
    const std::optional<base::RecorderReader> reader = reader_of(job, rank);
    const std::optional<base::ProcessStatus> process =
        rank.process ? base::read_process_status(rank.pid) : std::nullopt;
    if (!reader || !process || process->has_ended()) {
        return std::nullopt;
    }
    const std::vector<base::RecordedOperation> operations = reader->operations(kLookedAtOperations);
    if (std::any_of(operations.begin(), operations.end(), is_pending)) {
        return Activity::in_rueda;
    }
    if (!job.arena.control().ranks[rank.member].busy.read().empty()) {
        return Activity::in_scope;
    }
    if (runs(process->state)) {
        return Activity::runs_outside;
    }
    return has_running_thread(rank.pid) ? Activity::threads_run_outside : Activity::sleeps_outside;
}

}  // namespace

void look_at_activities(const Job& job, std::span<const RankSample> ranks, std::vector<std::vector<Look>>& looks) {
    looks.resize(job.arena.members());
    for (const RankSample& rank : ranks) {
        const std::int64_t now = base::monotonic_ns();
        if (const std::optional<Activity> activity = activity_of(job, rank)) {
            looks[rank.member].push_back({now, *activity});
        }
    }
}

}  // namespace rueda::launcher
