// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The Rueda authors
#include "core/diagnostics/message_watch.hpp"

#include <algorithm>
#include <set>
#include <utility>

#include "core/diagnostics/awaited_message.hpp"

namespace rueda::core {
namespace {

/// The ranks that have not called their side of the message. For a receive from any rank, these are all other ranks.
std::vector<std::int32_t> awaited_by(const MessageRequest& request, std::int32_t own) {
    if (!request.is_from_anybody()) {
        return {request.peer};
    }
    std::vector<std::int32_t> others(request.set->ranks.begin(), request.set->ranks.end());
    std::erase(others, own);
    return others;
}

/// Notes in each send whether this rank also waits for a message that the send's receiver can send.
void note_receives(std::vector<MessageWatch::Late>& all) {
    for (MessageWatch::Late& late : all) {
        StallReport::Message& message = *late.tensor.message;
        message.receives_too = message.sends && std::any_of(all.begin(), all.end(), [&](const auto& other) {
                                   const StallReport::Message& received = *other.tensor.message;
                                   return !received.sends && (received.peer == message.peer || received.peer < 0);
                               });
    }
}

}  // namespace

WaitReport::Part other_side_of(const MessageOperation& operation, std::int32_t own) {
    return {.tensor = {.name = operation.request.describe()},
            .ready = {own},
            .missing = awaited_by(operation.request, own)};
}

MessageWatch::MessageWatch(const StallSettings& settings, base::RankBlock& own)
    : block_(own), settings_(settings), schedule_(settings.schedule()) {}

std::optional<StallMonitor::Finding> MessageWatch::look(std::int64_t now_ns, const Messenger& messenger,
                                                        const Source& source) {
    if (!settings_.enabled || now_ns < next_look_ns_) {
        return std::nullopt;
    }
    const std::vector<Late> all = pending_messages(now_ns, messenger);
    std::vector<PendingTensor> pending;
    for (const Late& late : all) {
        pending.push_back(late.pending);
    }
    publish_awaited_message(block_, all.empty() ? nullptr : &all.front().tensor,
                            all.empty() ? 0 : all.front().pending.since_ns);
    // The schedule is replaced only after the texts exist, so that a failure to make them loses no report, as in
    // StallMonitor::tick().
    StallSchedule schedule = schedule_;
    const StallSchedule::Due due = schedule.look(pending, now_ns);
    const std::int64_t next_look_ns = schedule.next_look_ns(pending, now_ns, settings_.look_interval_ns);
    std::shared_ptr<const StallReport> data;
    if (!due.report && std::exchange(asks_for_stacks_, false)) {
        static_cast<void>(source.add_stacks_of_peers({}));  // the message has arrived while stacks were asked for
    }
    if (due.report || due.shut_down_for) {
        StallReport made = make_report(all, now_ns, source);
        asks_for_stacks_ = due.report && !source.add_stacks_of_peers(made.missing_ranks);
        if (asks_for_stacks_ && settings_.has_time_for_stacks(all.front().pending.since_ns, now_ns)) {
            return std::nullopt;  // the next look finds the same again, and looks for the answers
        }
        data = std::make_shared<const StallReport>(std::move(made));
    }
    std::string report = due.report ? format_stall_report(*data) : std::string();
    std::string reason = due.shut_down_for ? format_stall_shutdown(all.front().tensor, settings_.shutdown_seconds) : "";
    std::string ends_job = reason;
    schedule_ = std::move(schedule);
    next_look_ns_ = next_look_ns;
    if (due.shut_down_for) {
        return StallMonitor::Finding{std::move(reason), true, std::move(report), std::move(data), std::move(ends_job)};
    }
    return report.empty() ? std::nullopt
                          : std::optional(StallMonitor::Finding{std::move(report), false, {}, std::move(data), {}});
}

StallReport MessageWatch::make_report(const std::vector<Late>& all, std::int64_t now_ns, const Source& source) const {
    StallReport report;
    report.warning_seconds = settings_.warning_seconds;
    std::set<std::int32_t> missing;
    for (const Late& late : all) {
        if (schedule_.is_stalled(late.pending, now_ns)) {
            missing.insert(late.tensor.missing.begin(), late.tensor.missing.end());
            report.tensors.push_back(late.tensor);
        }
    }
    StallReport host = source.account();
    report.steps = std::move(host.steps);
    for (StallReport::Rank& rank : host.missing_ranks) {
        if (missing.contains(rank.rank)) {
            report.missing_ranks.push_back(std::move(rank));
        }
    }
    return report;
}

/// The list is in the order of the calls, so the messages that are pending for longest come first.
std::vector<MessageWatch::Late> MessageWatch::pending_messages(std::int64_t now_ns, const Messenger& messenger) const {
    const std::int32_t own = block_.global_rank.load(std::memory_order_relaxed);
    std::vector<Late> all;
    messenger.for_each_pending([&](const MessageOperation& operation) {
        if (now_ns - operation.submitted_ns < settings_.look_interval_ns) {
            return;  // the remaining messages have not waited long yet, and there may be many of them
        }
        StallReport::Tensor tensor{operation.request.describe(),
                                   0,
                                   static_cast<double>(now_ns - operation.submitted_ns) / 1e9,
                                   {own},
                                   awaited_by(operation.request, own)};
        const MessageRequest& request = operation.request;
        tensor.message = {request.sends, false, request.is_from_anybody() ? -1 : request.peer};
        PendingTensor pending{.id = {0, 0, operation.number},
                              .name = tensor.name,
                              .call = 0,
                              .since_ns = operation.submitted_ns,
                              .ready_mask = 0};
        all.push_back({std::move(tensor), std::move(pending)});
    });
    note_receives(all);
    return all;
}

}  // namespace rueda::core
