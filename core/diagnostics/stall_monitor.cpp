// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The Rueda authors
#include "core/diagnostics/stall_monitor.hpp"

#include <unistd.h>

#include <algorithm>
#include <set>
#include <vector>

#include "core/diagnostics/awaited_message.hpp"
#include "core/diagnostics/pending_end.hpp"
#include "core/diagnostics/process_state.hpp"
#include "core/diagnostics/seconds.hpp"

namespace rueda::core {

StallMonitor::Finding StallMonitor::Finding::of(StallReport report, const std::optional<std::string>& reason_of_end) {
    Finding finding;
    finding.report = std::make_shared<const StallReport>(std::move(report));
    finding.text = format_stall_report(*finding.report);
    if (reason_of_end) {
        finding.report_before = std::exchange(finding.text, *reason_of_end);
        finding.ends_job = *reason_of_end;
        finding.shut_down = true;
    }
    return finding;
}

StallMonitor::StallMonitor(const StallSettings& settings, const base::HostBlocks& blocks, std::uint32_t own,
                           const NegotiationMemory<base::StdAtomics>& memory)
    : blocks_(blocks),
      own_(own),
      memory_(memory),
      settings_(settings),
      schedule_(settings.schedule()),
      questions_(blocks, settings.silence_limit_ns),
      questions_to_executing_(blocks, settings.silence_limit_ns) {}

std::optional<StallMonitor::Finding> StallMonitor::tick(std::int64_t now_ns) {
    if (!settings_.enabled || now_ns < next_look_ns_) {
        return std::nullopt;
    }
    const std::vector<PendingTensor> tensors = pending_tensors(memory_);
    const std::vector<LateMessage> messages = late_messages(now_ns);
    std::vector<PendingTensor> pending = tensors;
    for (const LateMessage& message : messages) {
        pending.push_back(message.pending);
    }
    std::stable_sort(pending.begin(), pending.end(),
                     [](const PendingTensor& a, const PendingTensor& b) { return a.since_ns < b.since_ns; });
    // Every rank keeps a schedule, so that another rank can make the reports when the reporting rank stops responding.
    // `schedule_` is replaced only after the texts of the report were made. If there is no memory for the texts, the
    // next tick makes the same report.
    StallSchedule schedule = schedule_;
    const StallSchedule::Due due = schedule.look(pending, now_ns);
    const std::int64_t next_look_ns = schedule.next_look_ns(pending, now_ns, settings_.look_interval_ns);
    const bool reports = (due.report || due.shut_down_for) && is_reporter(now_ns);
    if (due.shut_down_for && !reports && now_ns < due.shut_down_for->since_ns + settings_.ends_job_for_others_ns()) {
        return std::nullopt;  // the reporting rank ends the job first, when its report and its file are
                              // complete
    }
    std::shared_ptr<const StallReport> data;
    if (!due.report) {
        questions_.end_round();  // no stacks are needed any more: the stall ended before they arrived
    }
    if (reports) {
        StallReport made = make_report(tensors, messages, now_ns);
        if (due.report && !add_stacks(made.missing_ranks, now_ns) &&
            settings_.has_time_for_stacks(pending.front().since_ns, now_ns)) {
            return std::nullopt;  // the next tick makes the report again, and checks whether the stacks have arrived
        }
        data = std::make_shared<const StallReport>(std::move(made));
    }
    std::string report = due.report && data ? format_stall_report(*data) : std::string();
    std::string reason;
    if (due.shut_down_for) {
        const auto message = std::find_if(messages.begin(), messages.end(), [&due](const LateMessage& one) {
            return one.pending.id == due.shut_down_for->id;
        });
        reason =
            format_stall_shutdown(message != messages.end() ? message->tensor : describe(*due.shut_down_for, now_ns),
                                  settings_.shutdown_seconds, started());
    }
    std::string ends_job = reason;
    schedule_ = std::move(schedule);
    next_look_ns_ = next_look_ns;
    if (due.shut_down_for) {
        return Finding{std::move(reason), true, std::move(report), std::move(data), std::move(ends_job)};
    }
    return report.empty() ? std::nullopt : std::optional(Finding{std::move(report), false, {}, std::move(data), {}});
}

bool StallMonitor::add_stacks(std::span<StallReport::Rank> ranks, std::int64_t now_ns) {
    return add_stacks(questions_, ranks, now_ns);
}

bool StallMonitor::add_stacks_of_executing(std::span<StallReport::Rank> ranks, std::int64_t now_ns) {
    return add_stacks(questions_to_executing_, ranks, now_ns);
}

bool StallMonitor::add_stacks(base::StackQuestions& questions, std::span<StallReport::Rank> ranks,
                              std::int64_t now_ns) {
    const auto find = [&](std::uint32_t member) {
        return std::find_if(ranks.begin(), ranks.end(),
                            [&](const StallReport::Rank& one) { return one.rank == rank_of(member); });
    };
    std::uint64_t asked = 0;
    for (std::uint32_t member = 0; member < memory_.extent().members; ++member) {
        asked |= std::uint64_t{find(member) != ranks.end()} << member;
    }
    const bool is_complete = questions.ask(asked, now_ns);
    for (std::uint32_t member = 0; member < memory_.extent().members; ++member) {
        if (const auto rank = find(member); rank != ranks.end()) {
            rank->stack = questions.text_of(member, rank->pid, now_ns);
        }
    }
    if (is_complete) {
        questions.end_round();
    }
    return is_complete;
}

double StallMonitor::longest_wait(std::int64_t now_ns) const {
    double longest = 0;
    for (const PendingTensor& tensor : pending_tensors(memory_)) {
        longest = std::max(longest, seconds(now_ns - tensor.since_ns));
    }
    for (const LateMessage& message : late_messages(now_ns)) {
        longest = std::max(longest, message.tensor.seconds);
    }
    return longest;
}

StallReport StallMonitor::account(std::int64_t now_ns) const {
    StallReport report;
    report.steps = steps();
    const std::vector<PendingTensor> pending = pending_tensors(memory_);
    for (const PendingTensor& tensor : pending) {
        report.tensors.push_back(describe(tensor, now_ns));
    }
    const std::vector<std::uint64_t> unnamed = unnamed_started(memory_);
    for (std::uint32_t member = 0; member < memory_.extent().members; ++member) {
        report.missing_ranks.push_back(describe(member, pending, now_ns));
        report.missing_ranks.back().unnamed = unnamed[member];
    }
    return report;
}

WaitReport StallMonitor::account_of(std::span<const AwaitedTensor> awaited, std::int64_t now_ns) const {
    const std::vector<PendingTensor> pending = pending_on_any_host(memory_);
    const std::uint64_t all = all_members(memory_.extent().members);
    WaitReport report;
    std::uint64_t awaited_somewhere = 0;
    for (const AwaitedTensor& tensor : awaited) {
        WaitReport::Part& part = report.parts.emplace_back(WaitReport::Part{.tensor = tensor});
        if (tensor.waits_for_room) {
            const Obstacles obstacles = obstacles_to_mailbox(memory_, own_);
            part.unfinished = ranks_of(obstacles.unfinished_mask);
            part.unread = ranks_of(obstacles.unread_mask);
            awaited_somewhere |= obstacles.unfinished_mask | obstacles.unread_mask;
            continue;
        }
        const std::uint64_t call = tensor.waits_behind != 0 ? tensor.waits_behind : tensor.call;
        const auto found = std::find_if(pending.begin(), pending.end(), [&](const PendingTensor& one) {
            return one.name == tensor.name && one.call == call;
        });
        if (found == pending.end()) {
            part.known = is_announced_by_all(memory_, tensor.name, tensor.slot, tensor.generation);
            continue;
        }
        StallReport::Tensor described = describe(*found, now_ns);
        part.ready = std::move(described.ready);
        part.missing = std::move(described.missing);
        part.unfinished = std::move(described.unfinished);
        part.unread = std::move(described.unread);
        part.unseen = std::move(described.unseen);
        awaited_somewhere |= (all & ~found->ready_mask) | found->unfinished_mask | found->unread_mask;
    }
    for (std::uint32_t member = 0; member < memory_.extent().members; ++member) {
        // If no rank is missing, a rank that does not respond may hold up the operation: it is stopped or starved in
        // the middle of it.
        const bool holds_up = awaited_somewhere == 0 && member != own_ && !responds(member, now_ns);
        if (holds_up || (awaited_somewhere >> member & 1) != 0) {
            report.ranks.push_back(describe(member, pending, now_ns));
        }
    }
    return report;
}

std::vector<std::int32_t> StallMonitor::ranks_of(std::uint64_t members) const {
    std::vector<std::int32_t> ranks;
    for (std::uint32_t member = 0; member < memory_.extent().members; ++member) {
        if ((members >> member & 1) != 0) {
            ranks.push_back(rank_of(member));
        }
    }
    return ranks;
}

bool StallMonitor::responds(std::uint32_t member, std::int64_t now_ns) const {
    const base::RankBlock& block = blocks_.of(member);
    const auto state = static_cast<base::RankState>(block.state.load(std::memory_order_acquire));
    return (state == base::RankState::running || state == base::RankState::shutting_down) &&
           now_ns - block.heartbeat_ns.load(std::memory_order_relaxed) <= settings_.silence_limit_ns;
}

bool StallMonitor::is_reporter(std::int64_t now_ns) const {
    for (std::uint32_t member = 0; member < own_; ++member) {
        if (responds(member, now_ns)) {
            return false;
        }
    }
    return true;
}

/// The schedule identifies a message by an id, which contains the rank and the time of the call. Therefore a later
/// message of the same rank gets another id.
std::vector<StallMonitor::LateMessage> StallMonitor::late_messages(std::int64_t now_ns) const {
    std::vector<LateMessage> late;
    if (!reports_messages_) {
        return late;
    }
    const std::vector<std::int32_t> ranks = ranks_of(all_members(memory_.extent().members));
    for (std::uint32_t member = 0; member < memory_.extent().members; ++member) {
        const base::RankBlock& block = blocks_.of(member);
        std::optional<StallReport::Tensor> message = read_awaited_message(block, now_ns);
        if (!message || !message->message->is_late) {
            continue;
        }
        const std::int64_t since = block.message_since_ns.load(std::memory_order_relaxed);  // any value does no harm
        PendingTensor pending{.id = {kNoSlot, member, static_cast<std::uint64_t>(since)},
                              .name = message->name,
                              .call = 0,
                              .since_ns = since,
                              .ready_mask = std::uint64_t{1} << member};
        late.push_back({with_sides(std::move(*message), rank_of(member), ranks), std::move(pending)});
    }
    return late;
}

StallReport StallMonitor::make_report(std::span<const PendingTensor> pending, std::span<const LateMessage> messages,
                                      std::int64_t now_ns) const {
    StallReport report;
    report.warning_seconds = settings_.warning_seconds;
    report.started = started();
    report.steps = steps();
    std::uint64_t missing_somewhere = 0;
    for (const PendingTensor& tensor : pending) {
        if (schedule_.is_stalled(tensor, now_ns)) {
            report.tensors.push_back(describe(tensor, now_ns));
            const std::uint64_t held_up = tensor.unfinished_mask | tensor.unread_mask;
            // If all members have announced the end of the set and nothing else explains the delay, any member may
            // delay the end.
            const bool all_ready = tensor.ready_mask == all_members(memory_.extent().members) && held_up == 0;
            missing_somewhere |= all_ready ? tensor.ready_mask : ~tensor.ready_mask | held_up;
        }
    }
    std::set<std::int32_t> missing_in_messages;
    for (const LateMessage& message : messages) {
        report.tensors.push_back(message.tensor);
        missing_in_messages.insert(message.tensor.missing.begin(), message.tensor.missing.end());
    }
    std::stable_sort(report.tensors.begin(), report.tensors.end(),
                     [](const auto& a, const auto& b) { return a.seconds > b.seconds; });
    for (std::uint32_t member = 0; member < memory_.extent().members; ++member) {
        if ((missing_somewhere >> member & 1) != 0 || missing_in_messages.contains(rank_of(member))) {
            report.missing_ranks.push_back(describe(member, pending, now_ns));
        }
    }
    return report;
}

StallReport::Tensor StallMonitor::describe(const PendingTensor& tensor, std::int64_t now_ns) const {
    const std::uint64_t all = all_members(memory_.extent().members);
    StallReport::Tensor described{.name = tensor.name,
                                  .call = tensor.call,
                                  .seconds = seconds(now_ns - tensor.since_ns),
                                  .ready = ranks_of(tensor.ready_mask),
                                  .missing = ranks_of(all & ~(tensor.ready_mask | tensor.unseen_mask)),
                                  .unfinished = ranks_of(tensor.unfinished_mask),
                                  .unread = ranks_of(tensor.unread_mask),
                                  .unseen = ranks_of(tensor.unseen_mask)};
    for (std::uint32_t member = 0; member < memory_.extent().members; ++member) {
        if (member < tensor.sites.size()) {
            add_site(described.sites, tensor.sites[member], rank_of(member));
        }
    }
    return described;
}

StallReport::Rank StallMonitor::describe(std::uint32_t member, std::span<const PendingTensor> pending,
                                         std::int64_t now_ns) const {
    const base::RankBlock& block = blocks_.of(member);
    StallReport::Rank described;
    described.rank = rank_of(member);
    described.pid = block.pid.load(std::memory_order_relaxed);
    if (described.pid > 0 && described.pid != getpid()) {
        described.process_state = describe_process(described.pid, block.process_start.load(std::memory_order_relaxed));
    }
    if (const std::string end = describe_end_of(memory_, member); !end.empty()) {
        described.process_state += (described.process_state.empty() ? "" : "; ") + end;
    }
    described.busy = block.busy.read();
    if (const std::int64_t since = block.busy_since_ns.load(std::memory_order_relaxed); since != 0) {
        described.busy_seconds = seconds(std::max<std::int64_t>(now_ns - since, 0));
    }
    described.host = settings_.host;
    described.step = block.step.load(std::memory_order_relaxed);
    described.finished = last_finished(member, now_ns);
    for (const PendingTensor& tensor : pending) {
        if ((tensor.ready_mask & ~tensor.unfinished_mask) >> member & 1) {
            StallReport::Tensor& waits_in = described.waits_in.emplace_back(describe(tensor, now_ns));
            std::erase_if(waits_in.sites, [&](const SiteOfRanks& site) {
                return std::find(site.ranks.begin(), site.ranks.end(), described.rank) == site.ranks.end();
            });
        }
    }
    if (std::optional<StallReport::Tensor> message = read_awaited_message(block, now_ns)) {
        message->message->is_late = message->message->is_late && reports_messages_;
        described.waits_in.push_back(std::move(*message));
        std::stable_sort(described.waits_in.begin(), described.waits_in.end(),
                         [](const auto& a, const auto& b) { return a.seconds > b.seconds; });
    }
    const std::int64_t heartbeat = block.heartbeat_ns.load(std::memory_order_relaxed);
    if (heartbeat != 0 && now_ns - heartbeat > settings_.silence_limit_ns) {
        described.silent_seconds = seconds(now_ns - heartbeat);
    }
    return described;
}

/// Returns the operation that the member finished last. Returns nothing if the operation's slot no longer has the name
/// that it had when the operation ended.
std::optional<StallReport::Tensor> StallMonitor::last_finished(std::uint32_t member, std::int64_t now_ns) const {
    const auto& cursor = memory_.cursor(member);
    const std::uint64_t finished = cursor.finished.load(std::memory_order_acquire);
    const auto slot = static_cast<std::uint32_t>(finished) - 1;
    if (finished == 0 || slot >= memory_.extent().slots) {
        return std::nullopt;
    }
    StallReport::Tensor tensor;
    if (slot < memory_.extent().unnamed_slots) {
        tensor.call = ((finished >> kFinishedSlotBits) - 1) * memory_.extent().unnamed_slots + slot + 1;
    } else {
        const auto& label = memory_.label(slot);
        tensor.name = label.name(label.state());
        if (tensor.name.empty() || cursor.finished.load(std::memory_order_relaxed) != finished) {
            return std::nullopt;
        }
    }
    // The rank's background thread checks at intervals for a newly finished operation, and notes the time. If it has
    // not yet noted the time of this operation, the time of the rank's last heartbeat is used instead.
    const bool is_dated = cursor.finished_seen.load(std::memory_order_acquire) == finished;
    const std::int64_t since = is_dated ? cursor.finished_ns.load(std::memory_order_relaxed)
                                        : blocks_.of(member).heartbeat_ns.load(std::memory_order_relaxed);
    tensor.seconds = seconds(std::max<std::int64_t>(now_ns - since, 0));
    return tensor;
}

void StallMonitor::date_last_finished(std::int64_t now_ns) {
    auto& cursor = memory_.cursor(own_);
    const std::uint64_t finished = cursor.finished.load(std::memory_order_relaxed);
    if (finished != cursor.finished_seen.load(std::memory_order_relaxed)) {
        cursor.finished_ns.store(now_ns, std::memory_order_relaxed);
        cursor.finished_seen.store(finished, std::memory_order_release);  // pairs with last_finished()
    }
}

StartedByRank StallMonitor::started() const {
    return started_by_rank(memory_, [this](std::uint32_t member) { return rank_of(member); });
}

std::map<std::int64_t, std::vector<std::int32_t>> StallMonitor::steps() const {
    std::map<std::int64_t, std::vector<std::int32_t>> ranks;
    for (std::uint32_t member = 0; member < memory_.extent().members; ++member) {
        ranks[blocks_.of(member).step.load(std::memory_order_relaxed)].push_back(rank_of(member));
    }
    return ranks;
}

std::int32_t StallMonitor::rank_of(std::uint32_t member) const {
    const std::int32_t rank = blocks_.of(member).global_rank.load(std::memory_order_relaxed);
    return rank < 0 ? static_cast<std::int32_t>(member) : rank;
}

}  // namespace rueda::core
