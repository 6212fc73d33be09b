// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The Rueda authors
#include "core/diagnostics/batch_watch.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <memory>
#include <utility>

#include "base/launcher_notification.hpp"
#include "base/text.hpp"
#include "core/diagnostics/gpu_states.hpp"
#include "core/diagnostics/seconds.hpp"
#include "core/diagnostics/stall_pattern.hpp"
#include "core/negotiation/arrivals.hpp"
#include "core/negotiation/batch_end.hpp"

namespace rueda::core {
namespace {

/// The reason for which a job is ended names the rank that holds up the batch. The members are asked this long before
/// the job is ended, so that their answers are there in time.
constexpr std::int64_t kQuestionBeforeEndNs = 2 * kSecond;

/// Compares the counts of one rank (`counts`) with the highest counts of all ranks (`most`). If another rank has
/// delivered its part of a chunk and this rank has not, returns the part that this rank has not delivered.
std::optional<StallReport::Part> part_not_delivered(const BatchWatch::Counts& counts, const BatchWatch::Counts& most,
                                                    const std::optional<collectives::BatchChunks>& chunks) {
    using Kind = StallReport::Part::Kind;
    if (counts.resident < most.resident) {
        return StallReport::Part{.kind = Kind::resident_share};
    }
    if (!chunks) {
        return std::nullopt;
    }
    const auto chunk = [&](Kind kind, std::uint64_t done, std::uint64_t most_done) -> std::optional<StallReport::Part> {
        const bool is_in_batch = done >= chunks->first && done < chunks->first + chunks->count;
        return is_in_batch && done < most_done
                   ? std::optional(StallReport::Part{kind, done - chunks->first + 1, chunks->count})
                   : std::nullopt;
    };
    const auto input = chunk(Kind::input, counts.staged, most.staged);
    return input ? input : chunk(Kind::share, counts.reduced, most.reduced);
}

/// Returns the ranks that may hold up the batch: the ranks that the report names as the cause, and the ranks that do
/// not respond. If there are none, another host holds up the batch. If there is no other host, any rank may hold it up.
std::vector<std::int32_t> suspects(const StallReport& report) {
    std::vector<std::int32_t> ranks = ranks_that_hold_up(report);
    for (const StallReport::Rank& rank : report.missing_ranks) {
        if (rank.silent_seconds > 0 && std::find(ranks.begin(), ranks.end(), rank.rank) == ranks.end()) {
            ranks.push_back(rank.rank);
        }
    }
    if (ranks.empty() && report.elsewhere.empty()) {
        ranks = report.tensors.front().missing;
    }
    return ranks;
}

}  // namespace

BatchWatch::BatchWatch(const StallSettings& settings, const base::HostBlocks& blocks,
                       const NegotiationMemory<base::StdAtomics>& memory, std::uint32_t own,
                       std::function<std::uint64_t(std::uint32_t)> moved)
    : blocks_(blocks), memory_(memory), log_(memory), own_(own), moved_(std::move(moved)), settings_(settings) {}

std::optional<StallMonitor::Finding> BatchWatch::tick(std::int64_t now_ns, const Source& source) {
    const std::uint64_t position = memory_.cursor(own_).position.load(std::memory_order_acquire);
    // The entry is read with peek() and not with read(), because another thread of this rank may move the cursor (this
    // rank's position in the log) past the entry. After that, the entry may be overwritten.
    const auto entry = settings_.enabled ? log_.peek(position) : std::nullopt;
    if (!entry || !is_call(entry->kind)) {
        since_ns_ = 0;
        stop_asking(source);
        return std::nullopt;
    }
    if (since_ns_ == 0 || position != position_) {
        stop_asking(source);
        position_ = position;
        since_ns_ = now_ns;
        moved_ns_ = now_ns;
        next_report_ns_ = now_ns + settings_.warning_ns();
        return std::nullopt;
    }
    if (const std::uint64_t steps = all_steps(); steps != steps_) {
        steps_ = steps;
        moved_ns_ = now_ns;
    }
    // How long no rank of this host has moved any data, beyond the time after which this ends the job.
    const std::int64_t late_ns = now_ns - moved_ns_ - nanoseconds(settings_.shutdown_seconds);
    const bool ends_job = settings_.shutdown_seconds > 0 && late_ns >= 0;
    const bool is_due = now_ns >= next_report_ns_ || ends_job;
    const bool ends_soon = settings_.shutdown_seconds > 0 && late_ns >= -kQuestionBeforeEndNs;
    if (!is_due && !ends_soon) {
        stop_asking(source);
        return std::nullopt;
    }
    std::optional<StallMonitor::Finding> finding;
    if (is_reporter(now_ns)) {
        const TurnQuestions::Answers turns = ask_for_turns(source);
        if (!is_due) {
            return std::nullopt;
        }
        StallReport made = make_report(now_ns, source, turns);
        add_parts(made, source);
        const bool is_complete = turns.are_complete && add_stacks(made, source);
        if (!is_complete && !ends_job && settings_.has_time_for_stacks(moved_ns_, now_ns)) {
            // The report still waits for answers or stacks. The next call makes the report again, and checks whether
            // they have arrived.
            return std::nullopt;
        }
        stop_asking(source);
        const auto reason = ends_job ? std::optional(reason_of_end(made)) : std::nullopt;
        finding = StallMonitor::Finding::of(std::move(made), reason);
    }
    if (is_due) {
        next_report_ns_ = now_ns + 2 * (now_ns - since_ns_);
    }
    return finding;
}

/// Asks the members that have not finished the batch whether they take turns.
TurnQuestions::Answers BatchWatch::ask_for_turns(const Source& source) {
    std::uint64_t members = 0;
    for (std::uint32_t member = 0; member < memory_.extent().members; ++member) {
        // acquire; partner: advance_to()
        const bool is_done = memory_.cursor(member).position.load(std::memory_order_acquire) > position_;
        members |= std::uint64_t{is_done ? 0U : 1U} << member;
    }
    if (!source.turns || members == 0) {
        return {};
    }
    asks_for_turns_ = true;
    return source.turns(members);
}

/// For each rank that is behind, adds to the report which part of which chunk the rank has not delivered.
void BatchWatch::add_parts(StallReport& report, const Source& source) const {
    if (!source.counts) {
        return;
    }
    const auto chunks = source.chunks ? source.chunks(position_) : std::nullopt;
    Counts most;
    std::map<std::int32_t, Counts> counts;
    for (std::uint32_t member = 0; member < memory_.extent().members; ++member) {
        const Counts of_member = source.counts(member);
        counts[blocks_.of(member).global_rank.load(std::memory_order_relaxed)] = of_member;
        most = {std::max(most.staged, of_member.staged), std::max(most.reduced, of_member.reduced),
                std::max(most.resident, of_member.resident)};
    }
    for (StallReport::Rank& rank : report.missing_ranks) {
        rank.part = part_not_delivered(counts[rank.rank], most, chunks);
    }
}

/// Asks only the suspects for their stacks. The suspects are the ranks that may hold up the batch. The other ranks only
/// wait for the suspects, and the stacks of many ranks would make the report long. Returns true if the report need not
/// wait for the stacks any longer.
bool BatchWatch::add_stacks(StallReport& report, const Source& source) {
    if (!source.add_stacks) {
        return true;
    }
    const std::vector<std::int32_t> asked = suspects(report);
    const auto others = std::stable_partition(
        report.missing_ranks.begin(), report.missing_ranks.end(), [&asked](const StallReport::Rank& rank) {
            return std::find(asked.begin(), asked.end(), rank.rank) != asked.end();
        });
    const bool is_complete = source.add_stacks({report.missing_ranks.begin(), others});
    asks_for_stacks_ = !is_complete;
    std::sort(report.missing_ranks.begin(), report.missing_ranks.end(),
              [](const StallReport::Rank& a, const StallReport::Rank& b) { return a.rank < b.rank; });
    return is_complete;
}

/// Ends the questions for turns and stacks, because the report no longer waits for answers. The next report asks again.
void BatchWatch::stop_asking(const Source& source) {
    if (std::exchange(asks_for_turns_, false) && source.turns) {
        static_cast<void>(source.turns(0));
    }
    if (std::exchange(asks_for_stacks_, false) && source.add_stacks) {
        static_cast<void>(source.add_stacks({}));
    }
}

bool BatchWatch::is_reporter(std::int64_t now_ns) const {
    for (std::uint32_t member = 0; member < own_; ++member) {
        // A member that has finished the batch does not report the batch. The acquire load of the member's position
        // pairs with advance_to().
        const bool sees_it = memory_.cursor(member).position.load(std::memory_order_acquire) <= position_;
        if (sees_it &&
            now_ns - blocks_.of(member).heartbeat_ns.load(std::memory_order_relaxed) <= settings_.silence_limit_ns) {
            return false;
        }
    }
    return true;
}

/// Returns the tensor whose operation is called by the log entry at `position_`. A batch may have several tensors,
/// which all end together.
StallReport::Tensor BatchWatch::tensor() const {
    StallReport::Tensor tensor;
    const auto entry = log_.peek(position_);
    const std::uint32_t slot = entry ? entry->slot : kNoSlot;
    const NegotiationExtent& extent = memory_.extent();
    if (slot < extent.unnamed_slots) {
        const std::uint64_t arrivals =
            ArrivalCount::arrivals(memory_.arrivals(slot).count.load(std::memory_order_relaxed));
        const std::uint64_t generation = std::max<std::uint64_t>(arrivals / extent.members, 1);
        tensor.call = (generation - 1) * extent.unnamed_slots + slot + 1;
    } else if (slot < extent.slots) {
        tensor.name = memory_.label(slot).name(memory_.label(slot).state());
    }
    return tensor;
}

/// Returns, for each member, how much less it has done than the member that has done most.
std::vector<std::uint64_t> BatchWatch::steps_behind() const {
    std::vector<std::uint64_t> steps(memory_.extent().members, 0);
    if (moved_) {
        for (std::uint32_t member = 0; member < steps.size(); ++member) {
            steps[member] = moved_(member);
        }
        const std::uint64_t most = *std::max_element(steps.begin(), steps.end());
        std::transform(steps.begin(), steps.end(), steps.begin(), [most](std::uint64_t done) { return most - done; });
    }
    return steps;
}

std::uint64_t BatchWatch::all_steps() const {
    std::uint64_t steps = 0;
    for (std::uint32_t member = 0; moved_ && member < memory_.extent().members; ++member) {
        steps += moved_(member);
    }
    return steps;
}

std::string BatchWatch::reason_of_end(const StallReport& report) const {
    const StallReport::Tensor& tensor = report.tensors.front();
    const std::vector<StallPattern> patterns = find_stall_patterns(report);
    return fmt::format(
        "{} was announced by all ranks and is not done after {} s, {}{:g}); not done: {}{}; the job is ended",
        name_of(tensor), seconds_text(tensor.seconds), base::kReasonOfStall, settings_.shutdown_seconds,
        base::format_ranks(tensor.missing), patterns.empty() ? "" : "; " + patterns.front().text);
}

StallReport BatchWatch::make_report(std::int64_t now_ns, const Source& source,
                                    const TurnQuestions::Answers& turns) const {
    StallReport report;
    report.executing = true;
    report.warning_seconds = settings_.warning_seconds;
    report.elsewhere = source.elsewhere();
    StallReport::Tensor stands_still = tensor();
    stands_still.seconds = seconds(now_ns - since_ns_);
    const std::vector<std::uint64_t> behind = steps_behind();
    const bool is_on_gpus = gpu_state_of(memory_, own_, position_).stage == GpuState::Stage::launching;
    report.on_gpus = is_on_gpus ? StallReport::OnGpus::launching : StallReport::OnGpus::no;
    std::vector<StallReport::Rank> ranks = source.ranks();
    for (std::uint32_t member = 0; member < std::min<std::size_t>(ranks.size(), behind.size()); ++member) {
        StallReport::Rank& rank = ranks[member];
        report.steps[rank.step].push_back(rank.rank);
        // acquire; partner: advance_to()
        const bool is_done = memory_.cursor(member).position.load(std::memory_order_acquire) > position_;
        (is_done ? stands_still.ready : stands_still.missing).push_back(rank.rank);
        if (is_on_gpus) {
            add_gpu_state(rank, gpu_state_of(memory_, member, position_), now_ns);
        }
        // A rank may wait for others inside a call of NCCL or CUDA. So only a rank that exchanges the data in the CPU's
        // memory must take turns.
        if (!is_done && (!is_on_gpus || rank.is_on_cpu)) {
            rank.takes_turns = turns.takes_turns[member];
        }
        if (!is_done || is_on_gpus) {
            rank.steps_behind = behind[member];
            report.missing_ranks.push_back(std::move(rank));
        }
    }
    report.tensors.push_back(std::move(stands_still));
    return report;
}

}  // namespace rueda::core
