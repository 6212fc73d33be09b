// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The Rueda authors
#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "base/shared_memory/control_block.hpp"
#include "core/diagnostics/launched_batch.hpp"
#include "core/diagnostics/stall_monitor.hpp"
#include "core/diagnostics/stall_settings.hpp"
#include "core/negotiation/layout.hpp"

namespace rueda::core {

/// Detects an operation on GPU memory that does not end, although all ranks of the host have launched the operation.
/// Possible causes: a kernel hangs, NCCL waits for another rank, or the program's own work before the operation does
/// not end. If a rank has not launched the operation, BatchWatch reports it.
///
/// If a batch stays the oldest batch of this rank's GPU for the warning time, it is reported, and is reported again at
/// growing intervals. After the shutdown time the job ends. Threads: one, the background thread.
class LaunchWatch {
public:
    LaunchWatch(const StallSettings& settings, const base::HostBlocks& blocks,
                const NegotiationMemory<base::StdAtomics>& memory, std::uint32_t own);

    /// Functions that provide facts for a report. They are called only if a report may be due.
    struct Source {
        /// The oldest batch that this rank's GPU works on.
        std::function<std::optional<LaunchedBatch>()> oldest;
        /// What each rank of this host is doing, in the order of the members.
        std::function<std::vector<StallReport::Rank>()> ranks;
        /// The members on other hosts.
        std::function<std::vector<std::int32_t>()> elsewhere;
    };
    /// Returns the report if one is due and this is the rank that reports.
    [[nodiscard]] std::optional<StallMonitor::Finding> tick(std::int64_t now_ns, const Source& source);

private:
    [[nodiscard]] bool is_reporter(std::int64_t now_ns) const;
    [[nodiscard]] bool have_all_launched() const;
    [[nodiscard]] StallReport make_report(const LaunchedBatch& batch, std::int64_t now_ns, const Source& source) const;
    [[nodiscard]] std::string reason_of_end(const StallReport& report) const;

    base::HostBlocks blocks_;
    NegotiationMemory<base::StdAtomics> memory_;
    std::uint32_t own_;
    StallSettings settings_;
    std::uint64_t launched_ = 0;  ///< the value of Cursor::launched at the last check; 0 if the GPU had no batch
    std::int64_t since_ns_ = 0;   ///< the time since which this batch has been the oldest
    std::int64_t next_report_ns_ = 0;
};

}  // namespace rueda::core
