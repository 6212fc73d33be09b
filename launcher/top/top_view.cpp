// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The Rueda authors
#include "launcher/top/top_view.hpp"

#include <fmt/format.h>

#include <algorithm>

#include "base/system/process_status.hpp"
#include "base/text.hpp"

namespace rueda::launcher {

namespace {

/// A straggler is a rank that delays the other ranks. First condition: on average, the other ranks waited for it during
/// at least this part of the interval. The ranks of every job differ a little, and with a smaller limit such
/// differences would mark ranks by chance.
constexpr double kStragglerShare = 0.10;

/// Second condition for a straggler (a rank that delays the other ranks): its own waiting time is at most this fraction
/// of the time for which the other ranks waited for it. Because of this condition, two ranks that are late alternately
/// are not marked. For example, on a machine with eight runnable threads for each core, one of two equal ranks waited
/// during 38 % of the time, and the second rank during 14 %.
constexpr double kStragglersOwnShare = 0.25;

/// A rank seems to wait for its input if it was idle during at least this part of the interval. Idle means: it did not
/// compute, and was neither in Rueda nor in a declared scope. The limit can be low, because a program that is busy with
/// computing spends almost no time asleep outside of Rueda.
constexpr double kInputShare = 0.3;

/// The view names a rank's oldest pending operation if the operation has been pending for at least this long.
constexpr std::int64_t kLongWaitNs = 1'000'000'000;

/// How many operations of each rank are compared, beginning with the newest. The limit bounds the work for a sample on
/// hosts with many ranks.
constexpr std::size_t kComparedOperations = 1024;

constexpr std::size_t kNameBytes = 60;

double seconds(std::int64_t ns) { return static_cast<double>(ns) * 1e-9; }

/// Whether the rank has announced the operation and waits for it. A non-blocking send or receive does not count,
/// because a program may start it long before the message comes.
bool is_awaited(const base::RecordedOperation& operation) {
    const bool is_awaited_message = base::RecordKind::is_message(operation.kind) && operation.is_blocking;
    return (base::RecordKind::is_collective(operation.kind) || is_awaited_message) && !operation.ended_ns;
}

/// Returns "allreduce 'loss'", "receive from rank 0", "send to rank 2".
std::string describe_pending(const base::RecordedOperation& operation) {
    const std::string_view kind = base::name_of_record_kind(operation.kind);
    if (base::RecordKind::is_message(operation.kind)) {
        const std::int32_t peer = operation.message.peer;
        return fmt::format("{} {} {}", kind, operation.kind == base::RecordKind::kSend ? "to" : "from",
                           peer < 0 ? "any rank" : fmt::format("rank {}", peer));
    }
    return operation.name.empty() ? std::string(kind)
                                  : fmt::format("{} {}", kind, base::quote(operation.name, kNameBytes));
}

/// Counters only grow. If a counter has decreased, another process has damaged it, and the rate is 0.
double rate(std::uint64_t before, std::uint64_t after, double interval_seconds) {
    return after > before && interval_seconds > 0 ? static_cast<double>(after - before) / interval_seconds : 0;
}

std::optional<double> step_seconds(const base::RecordedCounters& before, const base::RecordedCounters& after) {
    if (after.steps > before.steps && before.step_began_ns && after.step_began_ns) {
        return seconds(*after.step_began_ns - *before.step_began_ns) / static_cast<double>(after.steps - before.steps);
    }
    return after.step_ns ? std::optional(seconds(*after.step_ns)) : std::nullopt;
}

/// Names the operation that has been pending for the longest time, if this time is at least kLongWaitNs.
std::string long_wait(const std::vector<base::RecordedOperation>& operations, std::int64_t now_ns) {
    const auto oldest = std::find_if(operations.begin(), operations.end(), is_awaited);
    if (oldest == operations.end() || now_ns - oldest->announced_ns < kLongWaitNs) {
        return "";
    }
    return fmt::format("{}{} for {:.0f} s", describe_pending(*oldest), oldest->launched_ns ? " on the GPU" : "",
                       seconds(now_ns - oldest->launched_ns.value_or(oldest->announced_ns)));
}

void fill_from_recorder(RankRow& row, const base::RecordedCounters& before, const base::RecordedCounters& after,
                        double interval_seconds, std::int64_t now_ns) {
    row.step_seconds = step_seconds(before, after);
    if (after.step_began_ns) {
        row.in_step_seconds = std::max(0.0, seconds(now_ns - *after.step_began_ns));
    }
    row.operations_per_second = rate(before.ended + before.failed, after.ended + after.failed, interval_seconds);
    row.batches_per_second = rate(before.batches, after.batches, interval_seconds);
    row.bytes_per_second = rate(before.bytes, after.bytes, interval_seconds);
}

RankRow row_of(const RankSample& before, const RankSample& after, double interval_seconds) {
    RankRow row;
    row.rank = after.rank;
    row.pid = after.pid;
    row.step = after.step;
    row.scope = after.scope;
    row.process = "gone";
    if (after.process) {
        row.process = base::describe_process_state(after.process->state);
        row.resident_bytes = after.process->resident_bytes;
    }
    if (after.process && before.process && interval_seconds > 0) {
        row.cpu_share = std::max(0.0, after.process->cpu_seconds - before.process->cpu_seconds) / interval_seconds;
    }
    return row;
}

/// Each other rank spent a part of the time waiting for this rank. Returns the average of these parts over the
/// other ranks.
double share_lost_to(std::size_t index, std::span<const RankRow> rows, std::span<const RankWaits> waits) {
    double sum = 0;
    for (std::size_t other = 0; other < rows.size(); ++other) {
        sum += other != index ? waits[other].share_caused_by(rows[index].rank) : 0;
    }
    return rows.size() > 1 ? sum / static_cast<double>(rows.size() - 1) : 0;
}

void mark_stragglers(std::vector<RankRow>& rows, std::span<const RankWaits> waits) {
    for (std::size_t index = 0; index < rows.size(); ++index) {
        const std::int32_t rank = rows[index].rank;
        if (rank < 0) {
            continue;  // the rank has not joined the job yet
        }
        const double lost = share_lost_to(index, rows, waits);
        // If this rank waits for another rank, and that rank waits for a message from this rank, then this rank causes
        // its own wait. Such a wait does not count.
        const double own = waits[index].share() - waits[index].share_caused_by(rank);
        rows[index].is_straggler = lost >= kStragglerShare && own <= lost * kStragglersOwnShare;
    }
}

std::vector<RankGpu> gpus_of(std::int32_t pid, std::span<const GpuUse> gpus) {
    std::vector<RankGpu> found;
    for (const GpuUse& gpu : gpus) {
        if (pid != 0 && std::find(gpu.pids.begin(), gpu.pids.end(), pid) != gpu.pids.end()) {
            found.push_back({gpu.index, gpu.utilization, gpu.used_bytes, gpu.total_bytes});
        }
    }
    return found;
}

void judge_input(RankRow& row) {
    if (!row.outside) {
        return;
    }
    // The rank may have slept because it waited for its GPU. The samples do not show when in the interval the GPU was
    // busy. The code therefore assumes that the GPU was busy only while the rank slept.
    row.idle_share = std::max(0.0, row.outside->sleeps - gpu_utilization(row).value_or(0));
    // A rank that used no operation during the interval may be, for example, a server, whose sleep means nothing. So
    // nothing is said about such a rank.
    if (row.operations_per_second.value_or(0) > 0) {
        row.seems_bound_by_input = *row.idle_share >= kInputShare;
        row.waits_for_own_threads = row.outside->threads_run >= kInputShare;
    }
}

}  // namespace

TopSample take_top_sample(const Job& job) {
    TopSample sample;
    sample.job = take_sample(job);
    for (const RankSample& rank : sample.job.ranks) {
        RecordedRank recorded;
        recorded.rank = rank.rank;
        const std::optional<base::RecorderReader> reader = reader_of(job, rank);
        sample.counters.push_back(reader ? std::optional(reader->counters()) : std::nullopt);
        if (reader) {
            recorded.operations = reader->operations(kComparedOperations);
            recorded.sets = reader->sets();
        }
        sample.recorded.push_back(std::move(recorded));
    }
    return sample;
}

std::optional<double> gpu_utilization(const RankRow& row) {
    double sum = 0;
    int count = 0;
    for (const RankGpu& gpu : row.gpus) {
        sum += gpu.utilization.value_or(0);
        count += gpu.utilization ? 1 : 0;
    }
    return count > 0 ? std::optional(sum / count) : std::nullopt;
}

TopView compare(const TopSample& before, const TopSample& after, std::span<const std::vector<Look>> looks,
                std::span<const GpuUse> gpus) {
    TopView view;
    view.job = after.job;
    view.has_gpus = !gpus.empty();
    view.interval_seconds = seconds(after.job.time_ns - before.job.time_ns);
    const std::vector<RankWaits> waits = find_waits(after.recorded, before.job.time_ns, after.job.time_ns);
    for (std::size_t index = 0; index < after.job.ranks.size(); ++index) {
        const RankSample& now = after.job.ranks[index];
        // A job always has the same ranks, but the two samples may list them in a different order: a rank's number is
        // known only after the rank has joined the job.
        const auto same = std::find_if(before.job.ranks.begin(), before.job.ranks.end(),
                                       [&now](const RankSample& rank) { return rank.member == now.member; });
        const RankSample& then = same != before.job.ranks.end() ? *same : now;
        RankRow row = row_of(then, now, view.interval_seconds);
        if (after.counters[index]) {
            const auto place = static_cast<std::size_t>(same - before.job.ranks.begin());
            const bool had = same != before.job.ranks.end() && before.counters[place].has_value();
            fill_from_recorder(row, had ? *before.counters[place] : *after.counters[index], *after.counters[index],
                               view.interval_seconds, after.job.time_ns);
            row.waiting_share = waits[index].share();
            row.waits = waits[index].waits;
            row.pending = long_wait(after.recorded[index].operations, after.job.time_ns);
        }
        row.gpus = gpus_of(row.pid, gpus);
        if (now.member < looks.size()) {
            row.outside = find_time_outside(after.recorded[index].operations, looks[now.member], before.job.time_ns,
                                            after.job.time_ns);
            judge_input(row);
        }
        view.rows.push_back(std::move(row));
    }
    mark_stragglers(view.rows, waits);
    return view;
}

}  // namespace rueda::launcher
