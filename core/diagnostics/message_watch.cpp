// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The Rueda authors
#include "core/diagnostics/message_watch.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <string>
#include <utility>

#include "base/text.hpp"
#include "core/diagnostics/awaited_message.hpp"

namespace rueda::core {
namespace {

/// Returns the ranks on the other side of the message that have not made the matching call. For a receive from any
/// rank, these are all other ranks of the set. If the message waits for this rank's GPU, there is no such rank.
std::vector<std::int32_t> awaited_by(const MessageOperation& operation, std::int32_t own) {
    const MessageRequest& request = operation.request;
    if (operation.waits_for_gpu >= 0) {
        return {own};
    }
    if (!request.is_from_anybody()) {
        return {request.peer};
    }
    std::vector<std::int32_t> others(request.set->ranks.begin(), request.set->ranks.end());
    std::erase(others, own);
    return others;
}

std::string name_of_message(const MessageOperation& operation) {
    const std::string name = operation.request.describe();
    return operation.waits_for_gpu < 0
               ? name
               : fmt::format("{} (waits for the work of GPU {})", name, operation.waits_for_gpu);
}

/// Sets `receives_too` in the entry of each send whose peer this rank also wants to receive from. The pending receive
/// may name this peer, or accept any rank.
void note_receives(std::vector<MessageWatch::Late>& all) {
    for (MessageWatch::Late& late : all) {
        StallReport::Message& message = *late.tensor.message;
        message.receives_too = message.sends && std::any_of(all.begin(), all.end(), [&](const auto& other) {
                                   const StallReport::Message& received = *other.tensor.message;
                                   return !received.sends && (received.peer == message.peer || received.peer < 0);
                               });
    }
}

/// Returns the entry of the oldest message, as it is published. A rank can publish only one message, so the name in
/// this entry also mentions the other late messages.
StallReport::Tensor with_other_names(const std::vector<MessageWatch::Late>& all) {
    constexpr std::size_t kNamed = 3;
    constexpr std::size_t kPublishedBytes = 100;  // RankBlock::message has 103
    StallReport::Tensor oldest = all.front().tensor;
    std::size_t others = 0;
    for (std::size_t i = 1; i < all.size(); ++i) {
        if (all[i].tensor.message->is_late && ++others <= kNamed) {
            oldest.name += "; also " + all[i].tensor.name;
        }
    }
    if (others > kNamed) {
        oldest.name += fmt::format("; and {} more", others - kNamed);
    }
    oldest.name = base::shortened(oldest.name, kPublishedBytes);
    return oldest;
}

/// The line that a rank writes to its log if it does not print the report.
std::string line_about(const std::vector<MessageWatch::Late>& all) {
    const StallReport::Tensor& oldest = all.front().tensor;
    const std::size_t late = static_cast<std::size_t>(
        std::count_if(all.begin(), all.end(), [](const auto& one) { return one.tensor.message->is_late; }));
    return fmt::format(
        "{} has waited for {} s{}; the stall report is in the log of rank 0, or of the lowest rank that responds",
        name_of(oldest), seconds_text(oldest.seconds), late > 1 ? fmt::format(", and {} more", late - 1) : "");
}

}  // namespace

WaitReport::Part other_side_of(const MessageOperation& operation, std::int32_t own) {
    return {.tensor = {.name = operation.request.describe()},
            .ready = {own},
            .missing = operation.waits_for_gpu < 0 ? awaited_by(operation, own) : std::vector<std::int32_t>(),
            .gpu = operation.waits_for_gpu};
}

MessageWatch::MessageWatch(const StallSettings& settings, base::RankBlock& own)
    : block_(own),
      settings_(settings),
      schedule_(settings.warning_ns(), settings.shutdown_seconds > 0 ? settings.ends_job_for_others_ns() : 0) {}

std::optional<StallMonitor::Finding> MessageWatch::look(std::int64_t now_ns, const Messenger& messenger,
                                                        bool is_reporter) {
    if (!settings_.enabled || now_ns < next_look_ns_) {
        return std::nullopt;
    }
    const std::vector<Late> all = pending_messages(now_ns, messenger);
    std::vector<PendingTensor> pending;
    for (const Late& late : all) {
        pending.push_back(late.pending);
    }
    if (all.empty()) {
        publish_awaited_message(block_, nullptr, 0);
    } else {
        const StallReport::Tensor published = with_other_names(all);
        publish_awaited_message(block_, &published, all.front().pending.since_ns);
    }
    // The new schedule says that this report was made. The new schedule replaces `schedule_` only after the texts of
    // the report were made. If there is no memory for the texts, the old schedule stays, and the report is still due.
    StallSchedule schedule = schedule_;
    const StallSchedule::Due due = schedule.look(pending, now_ns);
    const std::int64_t next_look_ns = schedule.next_look_ns(pending, now_ns, settings_.look_interval_ns);
    std::string line = due.report && !is_reporter ? line_about(all) : std::string();
    std::string reason = due.shut_down_for ? format_stall_shutdown(all.front().tensor, settings_.shutdown_seconds) : "";
    std::string ends_job = reason;
    schedule_ = std::move(schedule);
    next_look_ns_ = next_look_ns;
    if (due.shut_down_for) {
        return StallMonitor::Finding{std::move(reason), true, std::move(line), {}, std::move(ends_job)};
    }
    return line.empty() ? std::nullopt : std::optional(StallMonitor::Finding{std::move(line), false, {}, {}, {}});
}

/// The list is in the order of the calls, so the messages that have waited longest come first.
std::vector<MessageWatch::Late> MessageWatch::pending_messages(std::int64_t now_ns, const Messenger& messenger) const {
    const std::int32_t own = block_.global_rank.load(std::memory_order_relaxed);
    std::vector<Late> all;
    messenger.for_each_pending([&](const MessageOperation& operation) {
        if (now_ns - operation.submitted_ns < settings_.look_interval_ns) {
            return;  // the remaining messages have not waited long yet, and there may be many of them
        }
        StallReport::Tensor tensor{name_of_message(operation),
                                   0,
                                   static_cast<double>(now_ns - operation.submitted_ns) / 1e9,
                                   {own},
                                   awaited_by(operation, own)};
        const MessageRequest& request = operation.request;
        tensor.message = {.sends = request.sends,
                          .peer = request.is_from_anybody() ? -1 : request.peer,
                          .from_all = request.is_from_anybody() && request.set->is_world(),
                          .is_late = now_ns - operation.submitted_ns >= settings_.warning_ns(),
                          .waits_for_gpu = operation.waits_for_gpu >= 0};
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
