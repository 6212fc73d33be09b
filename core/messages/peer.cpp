// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The Rueda authors
#include "core/messages/peer.hpp"

#include <algorithm>
#include <iterator>

namespace rueda::core {

void MessagePeer::take_out(const std::function<bool(std::int32_t set)>& is_meant,
                           std::vector<MessageOperation*>& operations, std::vector<std::uint64_t>* keeps_lent) {
    std::erase_if(sending, [&](const auto& entry) {
        const SendingMessage& message = entry.second;
        if (!is_meant(message.set->id)) {
            return false;
        }
        if (keeps_lent != nullptr && message.state == SendingMessage::State::lent) {
            keeps_lent->push_back(entry.first);
            return false;
        }
        if (message.operation != nullptr) {
            operations.push_back(message.operation);
        }
        // The peer no longer has the message and will not answer. So the message no longer counts as unanswered.
        unanswered -= std::min(message.charge, unanswered);
        return true;
    });
    std::erase_if(receiving, [&](const auto& entry) {
        MessageOperation* const operation = entry.second.operation;
        const bool is_ended = is_meant(operation->request.set->id);
        if (is_ended) {
            operations.push_back(operation);
        }
        return is_ended;
    });
    const auto is_not_sending = [this](std::uint64_t id) { return !sending.contains(id); };
    std::erase_if(unsent, is_not_sending);
    std::erase_if(streams, is_not_sending);
    std::erase_if(readings, [this](std::uint64_t id) { return !receiving.contains(id); });
}

std::vector<std::uint64_t> MessagePeer::readings_of(std::int32_t set) const {
    std::vector<std::uint64_t> ids;
    std::copy_if(readings.begin(), readings.end(), std::back_inserter(ids),
                 [this, set](std::uint64_t id) { return receiving.at(id).operation->request.set->id == set; });
    return ids;
}

void MessagePeer::clear() {
    sending.clear();
    receiving.clear();
    replies.clear();
    unsent.clear();
    streams.clear();
    readings.clear();
    unanswered = 0;
}

}  // namespace rueda::core
