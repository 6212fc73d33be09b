// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The Rueda authors
#pragma once

#include <cstdint>
#include <optional>
#include <vector>

#include "base/shared_memory/control_block.hpp"
#include "core/diagnostics/stall_monitor.hpp"
#include "core/diagnostics/stall_report.hpp"
#include "core/diagnostics/stall_schedule.hpp"
#include "core/diagnostics/stall_settings.hpp"
#include "core/messages/messenger.hpp"

namespace rueda::core {

/// Returns what a pending send or receive waits for, for the text of an error. The result does not say what the ranks
/// are doing. `own` is this rank's number in the job.
[[nodiscard]] WaitReport::Part other_side_of(const MessageOperation& operation, std::int32_t own);

/// Finds sends and receives of this rank for which the other rank has not made the matching call for a long time. Tells
/// the other ranks of the host which message this rank has awaited longest. The rank that reports stalled tensors then
/// reports this message too, with the stack of the other side (StallMonitor, StallInquiry). The log of this rank gets
/// one line only.
///
/// Threads: one, the background thread.
class MessageWatch {
public:
    /// `own` is the block of this rank, and must outlive this object.
    MessageWatch(const StallSettings& settings, base::RankBlock& own);

    /// Call this a few times per second. `is_reporter` is true if this rank prints the stall reports. It then needs no
    /// line in its log. The returned finding contains no report. It says whether the job must end because a message has
    /// been pending for the shutdown time. Every rank decides this by itself, a little later than the rank that prints
    /// the report.
    [[nodiscard]] std::optional<StallMonitor::Finding> look(std::int64_t now_ns, const Messenger& messenger,
                                                            bool is_reporter);

    /// A message that has been pending for some time.
    struct Late {
        StallReport::Tensor tensor;  ///< `message` is set
        PendingTensor pending;
    };

private:
    [[nodiscard]] std::vector<Late> pending_messages(std::int64_t now_ns, const Messenger& messenger) const;

    base::RankBlock& block_;
    StallSettings settings_;
    StallSchedule schedule_;
    std::int64_t next_look_ns_ = 0;
};

}  // namespace rueda::core
