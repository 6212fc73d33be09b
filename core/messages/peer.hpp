// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The Rueda authors
#pragma once

#include <cstdint>
#include <deque>
#include <functional>
#include <memory>
#include <unordered_map>
#include <vector>

#include "core/messages/link.hpp"
#include "core/messages/network_link.hpp"
#include "core/messages/operation.hpp"

namespace rueda::core {

/// A message to a peer, from the call of its send until the peer has said that it was received.
struct SendingMessage {
    /// unsent → whole, or offered → asked, or lent → asked or dropped.
    enum class State : std::uint8_t {
        unsent,
        whole,
        offered,
        lent,  ///< offered, and its receiver may be reading it where it lies: not the caller's before an answer
        asked,
        dropped,  ///< its receiver does not read it, and this rank has not ended it yet
    };

    MessageOperation* operation = nullptr;  ///< null: of a whole one whose caller has gone on
    State state = State::unsent;
    std::shared_ptr<const SetIdentity> set;
    std::int32_t tag = 0;
    DType dtype = DType::uint8;
    std::uint64_t bytes = 0;
    std::uint64_t sent_bytes = 0;  ///< of one that goes in parts
    std::uint64_t charge = 0;      ///< of a whole one, on Peer::unanswered
};

/// A message of a peer that this rank has asked for.
struct ReceivingMessage {
    MessageOperation* operation = nullptr;
    std::uint64_t bytes = 0;
    std::uint64_t received_bytes = 0;
    const std::byte* source = nullptr;  ///< where it is read; null: it comes in parts
    bool is_lent = false;               ///< it lies in the sender's resident memory; this rank may not reach that
};

/// What one rank is to this one's Messenger, and which work it has with it.
struct MessagePeer {
    int rank = 0;
    std::unique_ptr<Link> link;
    NetworkLink* network = nullptr;  ///< the same where it is on another host

    std::uint64_t last_id = 0;        ///< of messages to it
    std::uint64_t last_heard_id = 0;  ///< of messages from it
    std::unordered_map<std::uint64_t, SendingMessage> sending;
    std::unordered_map<std::uint64_t, ReceivingMessage> receiving;
    std::deque<Frame> replies;           ///< to be sent before anything else
    std::deque<std::uint64_t> unsent;    ///< messages, in the order of the calls
    std::deque<std::uint64_t> streams;   ///< messages that it has asked for
    std::deque<std::uint64_t> readings;  ///< messages that this rank reads in its resident memory
    std::uint64_t unanswered = 0;        ///< charged bytes of whole messages that it may have to keep

    bool has_unread = false;  ///< more has come than a step reads
    bool is_busy = false;     ///< in the Messenger's list: something may be done
    bool holds_job = false;   ///< its replies count among the rank's pending operations
    bool is_leaving = false;  ///< it has shut down: what it has written before is still to be read
    bool is_gone = false;
    bool was_asked = false;  ///< to tell when it shuts down
    bool asks = false;       ///< the same the other way round

    [[nodiscard]] bool has_output() const { return !replies.empty() || !unsent.empty() || !streams.empty(); }
    [[nodiscard]] bool is_transferring() const { return !receiving.empty() || !streams.empty(); }
    /// All that is under way, both ways, of the process sets that are meant; the operations are added to `operations`.
    /// Messages that are lent stay where `keeps_lent`, and their numbers are added there.
    void take_out(const std::function<bool(std::int32_t set)>& is_meant, std::vector<MessageOperation*>& operations,
                  std::vector<std::uint64_t>* keeps_lent = nullptr);
    /// Messages of the process set that are being read in its resident memory.
    [[nodiscard]] std::vector<std::uint64_t> readings_of(std::int32_t set) const;
    void clear();
};

}  // namespace rueda::core
