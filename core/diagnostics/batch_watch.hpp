// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The Rueda authors
#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "base/shared_memory/control_block.hpp"
#include "collectives/communicator.hpp"
#include "core/diagnostics/stall_monitor.hpp"
#include "core/diagnostics/stall_settings.hpp"
#include "core/diagnostics/turn_questions.hpp"
#include "core/negotiation/log.hpp"

namespace rueda::core {

/// A job can stand still in two ways. The stall monitor detects the first: a rank is missing. This class detects the
/// second: every rank has announced a tensor, and the log calls the tensor's operation, but the batch of this operation
/// does not complete. The reason is a rank that is stopped or starved in the middle of the batch, or another host that
/// delivers nothing.
///
/// This class looks at this rank's cursor, the rank's position in the log. If the cursor stays in front of the same
/// call of an operation for the warning time, this class reports the call. It repeats the report at growing intervals.
/// If no rank of the host moves any data for the shutdown time, the job ends. Threads: one, the background thread.
class BatchWatch {
public:
    /// `moved` is a function that returns how much a member has done in all batches so far (collectives::Progress). The
    /// results for two members can be compared. `moved` may be empty.
    BatchWatch(const StallSettings& settings, const base::HostBlocks& blocks,
               const NegotiationMemory<base::StdAtomics>& memory, std::uint32_t own,
               std::function<std::uint64_t(std::uint32_t member)> moved = {});

    /// How far a member is in all batches so far (collectives::Progress).
    struct Counts {
        std::uint64_t staged = 0;
        std::uint64_t reduced = 0;
        std::uint64_t resident = 0;
    };
    /// Functions that provide facts for a report. They are called only if a report is made.
    struct Source {
        /// What each rank of this host is doing, in the order of the members.
        std::function<std::vector<StallReport::Rank>()> ranks;
        /// The members on other hosts.
        std::function<std::vector<std::int32_t>()> elsewhere;
        /// See StallMonitor::add_stacks_of_executing. If this function is empty, reports have no stacks.
        std::function<bool(std::span<StallReport::Rank> ranks)> add_stacks = {};
        /// Returns the counts of a member. If this function is empty, the report does not say which part a rank has not
        /// delivered.
        std::function<Counts(std::uint32_t member)> counts = {};
        /// Asks the members in the bit mask whether they take turns (TurnQuestions). If the answers are not complete,
        /// call this again later. A call without members ends the round of questions. If this function is empty, it is
        /// not known which members take turns.
        std::function<TurnQuestions::Answers(std::uint64_t members)> turns = {};
        /// Returns the chunks of the batch at a position of the log. They are known only when this rank has answered
        /// that it takes turns. If this function is empty, reports have no chunks.
        std::function<std::optional<collectives::BatchChunks>(std::uint64_t position)> chunks = {};
    };
    /// Returns the report for the user if one is due and this is the lowest rank whose background thread runs. If the
    /// report must wait for answers or stacks, a later call returns it.
    [[nodiscard]] std::optional<StallMonitor::Finding> tick(std::int64_t now_ns, const Source& source);

private:
    [[nodiscard]] bool is_reporter(std::int64_t now_ns) const;
    [[nodiscard]] TurnQuestions::Answers ask_for_turns(const Source& source);
    [[nodiscard]] StallReport make_report(std::int64_t now_ns, const Source& source,
                                          const TurnQuestions::Answers& turns) const;
    [[nodiscard]] bool add_stacks(StallReport& report, const Source& source);
    void add_parts(StallReport& report, const Source& source) const;
    void stop_asking(const Source& source);
    [[nodiscard]] StallReport::Tensor tensor() const;
    [[nodiscard]] std::vector<std::uint64_t> steps_behind() const;
    [[nodiscard]] std::uint64_t all_steps() const;
    [[nodiscard]] std::string reason_of_end(const StallReport& report) const;

    base::HostBlocks blocks_;
    NegotiationMemory<base::StdAtomics> memory_;
    Log<base::StdAtomics> log_;
    std::uint32_t own_;
    std::function<std::uint64_t(std::uint32_t)> moved_;
    StallSettings settings_;
    std::uint64_t position_ = 0;
    std::int64_t since_ns_ = 0;  ///< 0: no batch is stuck
    std::int64_t next_report_ns_ = 0;
    std::uint64_t steps_ = 0;  ///< the steps that all members of this host together had done at the last call of tick()
    /// the later of two times: when `steps_` last changed, and when the cursor came to the current call
    std::int64_t moved_ns_ = 0;
    bool asks_for_stacks_ = false;
    bool asks_for_turns_ = false;
};

}  // namespace rueda::core
