// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The Rueda authors
#include "launcher/analyze/pending_messages.hpp"

#include <algorithm>
#include <set>
#include <tuple>

namespace rueda::launcher {

namespace {

using base::RecordedOperation;
using base::Recording;
using base::RecordKind;

/// One side of a message: the rank, whether this rank sends, the other rank (−1 means any rank), the process set, and
/// the tag.
using MessageSide = std::tuple<std::int32_t, bool, std::int32_t, std::int32_t, std::int32_t>;

class MessageFinder {
public:
    explicit MessageFinder(const std::vector<Recording>& recordings) : recordings_(recordings) {
        for (const Recording& recording : recordings) {
            ranks_.insert(recording.rank);
            for (const RecordedOperation& operation : recording.operations) {
                if (is_pending_message(operation)) {
                    sides_.insert(side_of(recording.rank, operation));
                }
            }
        }
    }

    [[nodiscard]] PendingMessages run() const {
        PendingMessages found;
        for (const Recording& recording : recordings_) {
            for (const RecordedOperation& operation : recording.operations) {
                if (is_pending_message(operation)) {
                    found.messages.push_back(describe(recording, operation));
                }
            }
        }
        find_crossed(found);
        return found;
    }

private:
    static bool is_pending_message(const RecordedOperation& operation) {
        return RecordKind::is_message(operation.kind) && was_pending(operation);
    }

    static MessageSide side_of(std::int32_t rank, const RecordedOperation& operation) {
        return {rank, operation.kind == RecordKind::kSend, operation.message.peer, operation.set_id,
                operation.message.tag};
    }

    [[nodiscard]] PendingMessage describe(const Recording& recording, const RecordedOperation& operation) const {
        return {.rank = recording.rank,
                .set_id = operation.set_id,
                .what = text_of_operation(operation),
                .bytes = operation.bytes,
                .waited_ns = operation.ended_ns.value_or(recording.written_ns) - operation.announced_ns,
                .is_blocking = operation.is_blocking,
                .other_side = other_side_of(recording.rank, operation)};
    }

    /// Returns whether the other side of the message was called. For a receive from any rank, the other side is a send
    /// of any rank to this rank. If there is no such send, but the file of a rank is missing, the result is unknown,
    /// because that rank may be the sender.
    [[nodiscard]] PendingMessage::OtherSide other_side_of(std::int32_t rank, const RecordedOperation& operation) const {
        const std::int32_t peer = operation.message.peer;
        if (peer >= 0) {
            return has_called(peer, rank, operation) ? PendingMessage::OtherSide::called
                   : ranks_.contains(peer)           ? PendingMessage::OtherSide::not_called
                                                     : PendingMessage::OtherSide::unknown;
        }
        const bool is_called = std::any_of(ranks_.begin(), ranks_.end(),
                                           [&](std::int32_t any) { return has_called(any, rank, operation); });
        const bool has_all = std::cmp_equal(ranks_.size(), recordings_.front().size);
        return is_called ? PendingMessage::OtherSide::called
               : has_all ? PendingMessage::OtherSide::not_called
                         : PendingMessage::OtherSide::unknown;
    }

    [[nodiscard]] bool has_called(std::int32_t other, std::int32_t rank, const RecordedOperation& operation) const {
        const bool sends = operation.kind != RecordKind::kSend;  // what the other side does
        const auto waits_for = [&](std::int32_t whom) {
            return sides_.contains({other, sends, whom, operation.set_id, operation.message.tag});
        };
        return waits_for(rank) || (!sends && waits_for(-1));
    }

    static void find_crossed(PendingMessages& found) {
        std::set<std::pair<std::int32_t, std::int32_t>> sends;
        for (const PendingMessage& message : found.messages) {
            const auto& [rank, whom] = std::pair(message.rank, message.what.message->peer);
            if (message.what.kind == base::name_of_record_kind(RecordKind::kSend) && message.is_blocking &&
                message.other_side == PendingMessage::OtherSide::not_called) {
                if (sends.contains({whom, rank}) && whom != rank) {
                    found.crossed.push_back({whom, rank});
                }
                sends.emplace(rank, whom);
            }
        }
    }

    const std::vector<Recording>& recordings_;
    std::set<std::int32_t> ranks_;
    std::set<MessageSide> sides_;  // the sides of the messages that were pending
};

}  // namespace

PendingMessages find_pending_messages(const std::vector<Recording>& recordings) {
    return MessageFinder(recordings).run();
}

}  // namespace rueda::launcher
