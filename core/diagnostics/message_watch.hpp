// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The Rueda authors
#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <span>
#include <vector>

#include "base/shared_memory/control_block.hpp"
#include "core/diagnostics/stall_monitor.hpp"
#include "core/diagnostics/stall_report.hpp"
#include "core/diagnostics/stall_schedule.hpp"
#include "core/diagnostics/stall_settings.hpp"
#include "core/messages/messenger.hpp"

namespace rueda::core {

/// Text: what a pending send or receive waits for, without what the ranks are doing. `own` is this rank of the job.
[[nodiscard]] WaitReport::Part other_side_of(const MessageOperation& operation, std::int32_t own);

/// Finds sends and receives of this rank that the other rank has not called for a long time. Each rank reports its own,
/// because no other rank knows of them.
///
/// Threads: one, the background thread.
class MessageWatch {
public:
    /// `own` is the block of this rank, and must outlive this object.
    MessageWatch(const StallSettings& settings, base::RankBlock& own);

    /// Functions that provide facts about the ranks of this host.
    struct Source {
        std::function<StallReport()> account;
        /// See StallMonitor::add_stacks_of_peers.
        std::function<bool(std::span<StallReport::Rank> ranks)> add_stacks_of_peers;
    };
    /// Call this a few times per second. It also tells the other ranks of the host for which message this rank waits.
    [[nodiscard]] std::optional<StallMonitor::Finding> look(std::int64_t now_ns, const Messenger& messenger,
                                                            const Source& source);

    /// A message that has been pending for some time.
    struct Late {
        StallReport::Tensor tensor;  ///< `message` is set
        PendingTensor pending;
    };

private:
    [[nodiscard]] StallReport make_report(const std::vector<Late>& all, std::int64_t now_ns,
                                          const Source& source) const;
    [[nodiscard]] std::vector<Late> pending_messages(std::int64_t now_ns, const Messenger& messenger) const;

    base::RankBlock& block_;
    StallSettings settings_;
    StallSchedule schedule_;
    std::int64_t next_look_ns_ = 0;
    bool asks_for_stacks_ = false;
};

}  // namespace rueda::core
