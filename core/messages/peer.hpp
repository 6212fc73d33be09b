// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The Rueda authors
#pragma once

#include <algorithm>
#include <cstdint>
#include <deque>
#include <functional>
#include <memory>
#include <unordered_map>
#include <vector>

#include "core/messages/host_link.hpp"
#include "core/messages/link.hpp"
#include "core/messages/network_link.hpp"
#include "core/messages/operation.hpp"

namespace rueda::core {

/// A message to a peer. It exists from the call of the send until the peer has answered that it received the message.
struct SendingMessage {
    /// A message begins as `unsent`. The next state is `whole`, `offered` or `lent`. From `offered`, it changes to
    /// `asked`. From `lent`, it changes to `asked` or `dropped`.
    enum class State : std::uint8_t {
        unsent,
        whole,
        offered,
        /// The message was offered, and the receiver may be reading it directly in this rank's memory. The caller of
        /// the send gets this memory back only after the receiver has answered.
        lent,
        asked,
        dropped,  ///< The receiver will not read the message. The send is still pending on this rank.
    };

    /// The pending send operation. Null for a whole message whose send is already complete.
    MessageOperation* operation = nullptr;
    State state = State::unsent;
    std::shared_ptr<const SetIdentity> set;
    std::int32_t tag = 0;
    DType dtype = DType::uint8;
    std::uint64_t bytes = 0;
    std::uint64_t sent_bytes = 0;  ///< How many bytes were sent so far. Used only if the message is sent in parts.
    /// How many bytes this message added to MessagePeer::unanswered. Only a whole message adds bytes.
    std::uint64_t charge = 0;

    /// Makes this object the message of `send`.
    void belong_to(MessageOperation& send) {
        operation = &send;
        set = send.request.set;
        tag = send.request.tag;
        dtype = send.request.dtype;
        bytes = send.request.bytes;
    }
};

/// A message from a peer that this rank is receiving. Either the message arrives in parts, for which this rank has
/// asked, or this rank reads it in the peer's memory.
struct ReceivingMessage {
    MessageOperation* operation = nullptr;
    std::uint64_t bytes = 0;
    std::uint64_t received_bytes = 0;
    const std::byte* source = nullptr;  ///< where this rank reads the message; null if the message arrives in parts
    /// Whether the message is in the sender's resident memory. If this rank cannot access that memory, `source` is
    /// null.
    bool is_lent = false;
};

/// What this rank's Messenger knows about one other rank, and its pending work with that rank.
struct MessagePeer {
    /// The maximum number of bytes of whole messages that one rank may have to keep for another rank. Messages beyond
    /// this limit are offered instead: the sender keeps their bytes until the receiver asks for them.
    static constexpr std::uint64_t kMostUnanswered = 256 * 1024;
    /// If no matching receive was called yet, the receiver must keep a message. A kept message needs about this many
    /// bytes of memory in addition to its content.
    static constexpr std::uint64_t kLeastCharge = 128;

    int rank = 0;
    std::unique_ptr<Link> link;
    HostLink* host = nullptr;        ///< points to `link` if the peer is on this host; otherwise null
    NetworkLink* network = nullptr;  ///< points to `link` if the peer is on another host; otherwise null

    std::uint64_t last_id = 0;        ///< the number of the last message to the peer
    std::uint64_t last_heard_id = 0;  ///< the number of the last message from the peer
    std::unordered_map<std::uint64_t, SendingMessage> sending;
    std::unordered_map<std::uint64_t, ReceivingMessage> receiving;
    std::deque<Frame> replies;           ///< answers to the peer, which are sent before the frames of any message
    std::deque<std::uint64_t> unsent;    ///< messages that were not sent yet, in the order of the calls
    std::deque<std::uint64_t> streams;   ///< messages for which the peer has asked
    std::deque<std::uint64_t> readings;  ///< messages that this rank reads in the peer's resident memory
    std::uint64_t unanswered = 0;        ///< the sum of `charge` over all whole messages that the peer may have to keep

    bool has_unread = false;  ///< whether more frames have arrived than one step handles
    bool is_busy = false;     ///< whether the peer is in the Messenger's list of peers for which there may be work
    /// True while this rank has unsent replies to the peer. Together they count as one pending operation of this rank.
    bool holds_job = false;
    /// Whether the peer has shut down, but this rank must still read what the peer wrote before that.
    bool is_leaving = false;
    bool is_gone = false;
    bool was_asked = false;  ///< whether the peer asked this rank to report its shutdown
    bool asks = false;       ///< whether this rank asked the peer to report its shutdown

    /// How many bytes a whole message adds to `unanswered`.
    [[nodiscard]] static std::uint64_t charge_of(std::uint64_t bytes) { return std::max(bytes, kLeastCharge); }
    /// Whether a message of this size is sent whole now.
    [[nodiscard]] bool accepts_whole(std::uint64_t bytes) const {
        return bytes == 0 || (bytes <= link->largest_whole() && unanswered + charge_of(bytes) <= kMostUnanswered);
    }
    /// Marks `message` as sent whole, and adds its `charge` to `unanswered`.
    void note_whole(SendingMessage& message) {
        message.state = SendingMessage::State::whole;
        message.charge = charge_of(message.bytes);
        unanswered += message.charge;
    }
    [[nodiscard]] bool has_output() const { return !replies.empty() || !unsent.empty() || !streams.empty(); }
    [[nodiscard]] bool is_transferring() const { return !receiving.empty() || !streams.empty(); }
    /// Removes all messages in both directions that belong to the process sets for which `is_meant` returns true, and
    /// adds their operations to `operations`. If `keeps_lent` is given, messages in the state `lent` are not removed;
    /// their numbers are added to `keeps_lent`.
    void take_out(const std::function<bool(std::int32_t set)>& is_meant, std::vector<MessageOperation*>& operations,
                  std::vector<std::uint64_t>* keeps_lent = nullptr);
    /// Returns the numbers of this process set's messages that this rank is reading in the peer's resident memory.
    [[nodiscard]] std::vector<std::uint64_t> readings_of(std::int32_t set) const;
    void clear();
};

}  // namespace rueda::core
