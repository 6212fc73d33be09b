// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The Rueda authors
#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <utility>

#include "base/shared_memory/atomics.hpp"
#include "base/shared_memory/control_block.hpp"
#include "base/stacks/stack_questions.hpp"
#include "collectives/host/arena/arena.hpp"
#include "core/diagnostics/pending_tensors.hpp"
#include "core/diagnostics/stall_report.hpp"
#include "core/diagnostics/stall_schedule.hpp"
#include "core/diagnostics/stall_settings.hpp"
#include "core/negotiation/layout.hpp"

namespace rueda::core {

/// Finds the stalled operations of one process set. There are two kinds. A collective operation is stalled if some
/// ranks announced its tensor a long time ago, and other ranks have not announced it. A send or a receive is stalled if
/// the other rank has not made the matching call for a long time. Every rank of the host looks for such operations, and
/// the lowest rank that responds prints the report.
///
/// Threads: one, the background thread.
class StallMonitor {
public:
    struct Finding {
        std::string text;  ///< The text to print. If shut_down is true, it is one line that says why the job is
                           ///< aborted. Otherwise it is a report of several lines, or "" if there is nothing to print.
        bool shut_down = false;  ///< whether to abort the job; every rank decides this by itself
        /// A report that must be printed before `text`, because both are due at the same time. "" if there is none.
        std::string report_before = {};
        /// The data of the report, for a file. Empty on ranks that do not report.
        std::shared_ptr<const StallReport> report = {};
        /// If this stall ends the job, the reason for the end. Otherwise "". If there is a reason and shut_down is
        /// false, another part of the runtime ends the job.
        std::string ends_job = {};
        /// If another host reports a stall, this rank must write the flight recorders of its own host to files. This
        /// text is then the reason. Otherwise it is empty.
        std::string record_because = {};

        /// Returns the finding for a report that is to be printed now. `reason_of_end` has a value if the stall ends
        /// the job.
        [[nodiscard]] static Finding of(StallReport report, const std::optional<std::string>& reason_of_end);
    };

    /// The set and the memory must outlive this object. `own` is this rank's number among the members.
    StallMonitor(const StallSettings& settings, const base::HostBlocks& blocks, std::uint32_t own,
                 const NegotiationMemory<base::StdAtomics>& memory);
    StallMonitor(const StallSettings& settings, std::shared_ptr<collectives::Arena> arena,
                 const NegotiationMemory<base::StdAtomics>& memory)
        : StallMonitor(settings, arena->blocks(), arena->rank(), memory) {
        arena_ = std::move(arena);
    }

    /// Lets this object also report sends and receives. Call this before the other functions, and only for the set of
    /// all ranks. A rank publishes only one message, the message for which it has waited longest. This message may
    /// belong to any process set. If several sets reported it, it would be reported several times.
    void report_messages() { reports_messages_ = true; }

    /// Call this a few times per second. If the warning time is shorter than a second, call it a few times per warning
    /// time. tick() reads the arena four times per warning time, and at least once per second. It also reads the arena
    /// when it is time to end the job.
    [[nodiscard]] std::optional<Finding> tick(std::int64_t now_ns);

    /// Records the time when this rank finished its last operation, so that other ranks can read it. Call this once in
    /// every liveness interval.
    void date_last_finished(std::int64_t now_ns);

    /// Whether this is the lowest rank that responds. Any thread.
    [[nodiscard]] bool is_reporter(std::int64_t now_ns) const;
    /// The age of the oldest pending tensor or late message of this host, in seconds; 0 if there is none. Any thread.
    [[nodiscard]] double longest_wait(std::int64_t now_ns) const;
    /// Returns what is pending on this host, and what the ranks of this host are doing. Any thread.
    [[nodiscard]] StallReport account(std::int64_t now_ns) const;
    /// Returns what an operation waits for, as far as this host knows. `awaited` lists the tensors for which the
    /// operation still waits. This function reads every slot that was ever used, and the state of the missing ranks in
    /// /proc. Any thread.
    [[nodiscard]] WaitReport account_of(std::span<const AwaitedTensor> awaited, std::int64_t now_ns) const;
    /// Asks the ranks in `ranks` that are on this host for their stacks. Returns true if no more answers will come:
    /// `ranks` then contains the stacks, and the next call begins a new request. If this function returns false, call
    /// it again a little later. Threads: the thread that calls tick(), or the only thread that uses this object.
    [[nodiscard]] bool add_stacks(std::span<StallReport::Rank> ranks, std::int64_t now_ns);
    /// Like add_stacks(), for the report about an operation that is being executed (BatchWatch). That report may be due
    /// at another time. A call without ranks ends the request, and the next call begins a new one.
    [[nodiscard]] bool add_stacks_of_executing(std::span<StallReport::Rank> ranks, std::int64_t now_ns);

private:
    [[nodiscard]] std::optional<StallReport::Tensor> last_finished(std::uint32_t member, std::int64_t now_ns) const;
    [[nodiscard]] bool responds(std::uint32_t member, std::int64_t now_ns) const;
    [[nodiscard]] bool add_stacks(base::StackQuestions& questions, std::span<StallReport::Rank> ranks,
                                  std::int64_t now_ns);
    /// A send or a receive of a rank of this host that has been pending for longer than the warning time.
    struct LateMessage {
        StallReport::Tensor tensor;
        PendingTensor pending;  ///< the same message, in the form that StallSchedule takes
    };
    [[nodiscard]] std::vector<LateMessage> late_messages(std::int64_t now_ns) const;
    [[nodiscard]] StallReport make_report(std::span<const PendingTensor> pending, std::span<const LateMessage> messages,
                                          std::int64_t now_ns) const;
    [[nodiscard]] StallReport::Tensor describe(const PendingTensor& tensor, std::int64_t now_ns) const;
    [[nodiscard]] StallReport::Rank describe(std::uint32_t member, std::span<const PendingTensor> pending,
                                             std::int64_t now_ns) const;
    [[nodiscard]] std::int32_t rank_of(std::uint32_t member) const;
    [[nodiscard]] std::vector<std::int32_t> ranks_of(std::uint64_t members) const;
    [[nodiscard]] StartedByRank started() const;
    [[nodiscard]] std::map<std::int64_t, std::vector<std::int32_t>> steps() const;

    std::shared_ptr<collectives::Arena> arena_;
    base::HostBlocks blocks_;
    std::uint32_t own_;
    NegotiationMemory<base::StdAtomics> memory_;
    StallSettings settings_;
    StallSchedule schedule_;
    base::StackQuestions questions_;
    base::StackQuestions questions_to_executing_;
    std::int64_t next_look_ns_ = 0;
    bool reports_messages_ = false;
};

}  // namespace rueda::core
