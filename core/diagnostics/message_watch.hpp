// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The Rueda authors
#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <vector>

#include "base/shared_memory/control_block.hpp"
#include "core/diagnostics/stall_monitor.hpp"
#include "core/diagnostics/stall_report.hpp"
#include "core/diagnostics/stall_schedule.hpp"
#include "core/diagnostics/stall_settings.hpp"
#include "core/messages/messenger.hpp"

namespace rueda::core {

/// What a pending send or receive waits for. What the ranks are doing is left out. `own` is this rank of the job.
[[nodiscard]] WaitReport::Part other_side_of(const MessageOperation& operation, std::int32_t own);

/// Finds sends and receives of this rank whose other side has not come for a long time. Each rank reports its own,
/// because no other rank knows of them.
///
/// Threads: one, the background thread.
class MessageWatch {
public:
    /// `own` is the block of this rank; it outlives this object.
    MessageWatch(const StallSettings& settings, base::RankBlock& own);

    /// Call it a few times per second. `account` tells what the ranks of this host are doing. Also tells the other
    /// ranks of the host for which message this rank waits.
    [[nodiscard]] std::optional<StallMonitor::Finding> look(std::int64_t now_ns, const Messenger& messenger,
                                                            const std::function<StallReport()>& account);

    /// A message that has been pending for some time.
    struct Late {
        StallReport::Tensor tensor;  ///< `message` is set
        PendingTensor pending;
    };

private:
    [[nodiscard]] StallReport make_report(const std::vector<Late>& all, std::int64_t now_ns,
                                          const std::function<StallReport()>& account) const;
    [[nodiscard]] std::vector<Late> pending_messages(std::int64_t now_ns, const Messenger& messenger) const;

    base::RankBlock& block_;
    StallSettings settings_;
    StallSchedule schedule_;
    std::int64_t next_look_ns_ = 0;
};

}  // namespace rueda::core
