// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The Rueda authors
#include "collectives/hierarchical/messages.hpp"

#include <utility>

namespace rueda::collectives {

Messages::~Messages() {
    if (under_way_ > 0) {
        abandon();
    }
}

void Messages::abandon() noexcept {
    fail(abandoned_);
    keep_value_for_good(std::exchange(memory_, {}));
}

std::byte* Messages::allocate(std::size_t bytes) {
    memory_.push_back(std::make_unique_for_overwrite<std::byte[]>(bytes));
    return memory_.back().get();
}

Message Messages::send(std::uint32_t rank, std::span<const std::byte> bytes) {
    if (!failure_.is_ok()) {
        return {.under_way = true};
    }
    return started(rank, bytes.size(), transport_.send(static_cast<int>(rank), Transport::Channel::data, bytes));
}

Message Messages::receive(std::uint32_t rank, std::span<std::byte> room) {
    if (!failure_.is_ok()) {
        return {.under_way = true};
    }
    return started(rank, room.size(), transport_.receive(static_cast<int>(rank), Transport::Channel::data, room));
}

Message Messages::started(std::uint32_t rank, std::size_t bytes, Result<Transport::Ticket> ticket) {
    if (!ticket.is_ok()) {
        failure_ = ticket.status();
        return {.under_way = true};
    }
    ++under_way_;
    return {ticket.value(), bytes, rank, true};
}

bool Messages::has_ended(Message& message) {
    if (!message.under_way) {
        return true;
    }
    if (!failure_.is_ok()) {
        return false;
    }
    const Result<std::optional<std::size_t>> bytes = transport_.test(message.ticket);
    if (!bytes.is_ok()) {
        failure_ = bytes.status();
        return false;
    }
    if (!bytes.value()) {
        return false;
    }
    message.under_way = false;
    --under_way_;
    if (*bytes.value() != message.bytes) {
        failure_ =
            rueda::failure(ErrorCode::aborted,
                           "a message between this rank and rank {} has {} bytes instead of {}: do all ranks have "
                           "the same settings?",
                           message.rank, *bytes.value(), message.bytes);
    }
    return failure_.is_ok();
}

}  // namespace rueda::collectives
