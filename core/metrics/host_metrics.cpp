// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The Rueda authors
#include "core/metrics/host_metrics.hpp"

#include <algorithm>

#include "base/system/clock.hpp"

namespace rueda::core {
namespace {

double in_seconds(std::int64_t ns) { return static_cast<double>(ns) / 1e9; }

bool is_up(const base::RankBlock& block) {
    const auto state = static_cast<base::RankState>(block.state.load(std::memory_order_acquire));
    return state == base::RankState::running || state == base::RankState::shutting_down;
}

void read_recorder(const base::RecorderReader& reader, RankMetrics& metrics) {
    const base::RecordedCounters counters = reader.counters();
    const base::RecordedExtras extras = reader.extras();
    for (std::size_t kind = 0; kind < kOperationKinds; ++kind) {
        const base::RecordedKind& sums = extras.kinds[kind];
        metrics.operations[kind] = {sums.ended, sums.bytes, in_seconds(sums.waited_ns), in_seconds(sums.executed_ns)};
    }
    const base::PendingOperations pending = reader.pending();
    metrics.failed = counters.failed;
    metrics.pending = pending.count;
    if (pending.oldest_announced_ns) {
        metrics.oldest_pending_seconds = std::max(0.0, in_seconds(base::monotonic_ns() - *pending.oldest_announced_ns));
    }
    metrics.batches = counters.batches;
    metrics.batched = extras.batched;
    metrics.steps = counters.steps;
    metrics.stall_reports = extras.stall_reports;
    metrics.resident_bytes = extras.resident_bytes;
}

}  // namespace

RankMetrics read_rank_metrics(const collectives::Arena& arena, std::uint32_t member) {
    const base::RankBlock& block = arena.control().ranks[member];
    RankMetrics metrics;
    metrics.rank = block.global_rank.load(std::memory_order_relaxed);
    metrics.is_up = is_up(block);
    metrics.step = block.step.load(std::memory_order_relaxed);
    if (const base::RankRecorder* const recorder = arena.recorder(member); recorder != nullptr) {
        const base::RecorderReader reader(*recorder);
        if (reader.is_ready()) {
            read_recorder(reader, metrics);
        }
    }
    return metrics;
}

HostMetrics read_host_metrics(const collectives::Arena& arena, std::int32_t job_ranks) {
    HostMetrics metrics{.job_ranks = job_ranks, .is_aborted = arena.control().abort.raised(), .ranks = {}};
    for (std::uint32_t member = 0; member < arena.plan().members; ++member) {
        metrics.ranks.push_back(read_rank_metrics(arena, member));
    }
    return metrics;
}

}  // namespace rueda::core
