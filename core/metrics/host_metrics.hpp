// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The Rueda authors
#pragma once

#include <array>
#include <cstdint>
#include <vector>

#include "base/recorder/recorder_reader.hpp"
#include "collectives/host/arena/arena.hpp"

namespace rueda::core {

/// Counts the operations of one kind that succeeded on a rank.
struct OperationMetrics {
    std::uint64_t count = 0;
    std::uint64_t bytes = 0;
    /// The time from the announcement to the execution of an operation, summed over all operations.
    double waiting_seconds = 0;
    double executing_seconds = 0;  ///< the time of execution, summed over all operations
};

/// The number of values of base::RecordKind (the kind of an operation). Arrays with one element for each kind have this
/// size.
inline constexpr std::size_t kOperationKinds = base::RecordKind::kReduce + 1;

/// The metrics of one rank at one point in time. docs/metrics.md explains the numbers.
struct RankMetrics {
    std::int32_t rank = 0;
    bool is_up = false;  ///< whether the rank takes part in the job, as far as the other ranks know
    std::array<OperationMetrics, kOperationKinds> operations;
    std::uint64_t failed = 0;
    std::uint64_t pending = 0;
    double oldest_pending_seconds = 0;  ///< 0: no operation is pending
    std::uint64_t batches = 0;
    std::uint64_t batched = 0;
    std::uint64_t steps = 0;
    std::int64_t step = -1;  ///< the number of the current training step; -1: none
    std::uint64_t stall_reports = 0;
    std::uint64_t resident_bytes = 0;
};

/// The metrics of all ranks of a job on one host.
struct HostMetrics {
    std::int32_t job_ranks = 0;  ///< on all hosts
    bool is_aborted = false;
    std::vector<RankMetrics> ranks;
};

/// Reads the metrics of one rank. `member`: the rank's number on the host. `arena`: the arena of the job, which must
/// stay mapped during the call.
[[nodiscard]] RankMetrics read_rank_metrics(const collectives::Arena& arena, std::uint32_t member);
/// Reads the metrics of all ranks of the host.
[[nodiscard]] HostMetrics read_host_metrics(const collectives::Arena& arena, std::int32_t job_ranks);

}  // namespace rueda::core
