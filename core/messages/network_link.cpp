// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The Rueda authors
#include "core/messages/network_link.hpp"

#include <algorithm>
#include <cstring>
#include <utility>

namespace rueda::core {
namespace {

// The maximum size of a frame. The parts of a message between ranks of one host have this size, too.
constexpr std::size_t kFrameBytes = std::size_t{64} * 1024;
// The number of send buffers, and also of receive buffers. So one frame can be sent while other frames are filled and
// received.
constexpr std::size_t kUnderWay = 4;

}  // namespace

NetworkLink::~NetworkLink() {
    const bool under_way = std::any_of(out_.begin(), out_.end(), [](const Message& m) { return m.under_way; }) ||
                           std::any_of(coming_.begin(), coming_.end(), [](const Message& m) { return m.under_way; });
    if (under_way) {
        for (Message& message : out_) {
            collectives::keep_value_for_good(std::move(message.memory));
        }
        for (Message& message : coming_) {
            collectives::keep_value_for_good(std::move(message.memory));
        }
    }
}

std::size_t NetworkLink::largest_payload() const { return kFrameBytes - sizeof(Frame); }

Result<bool> NetworkLink::send(const Frame& frame, std::span<const std::byte> payload) {
    Message* place = nullptr;
    for (Message& message : out_) {
        const Result<bool> ended = has_left(message);
        RUEDA_RETURN_IF_FAILED(ended.status());
        place = ended.value() ? &message : place;
    }
    if (place == nullptr) {
        if (out_.size() == kUnderWay) {
            return false;
        }
        out_.reserve(kUnderWay);
        place = &out_.emplace_back();
        place->memory = std::make_unique_for_overwrite<std::byte[]>(kFrameBytes);
    }
    std::memcpy(place->memory.get(), &frame, sizeof(Frame));
    if (!payload.empty()) {
        std::memcpy(place->memory.get() + sizeof(Frame), payload.data(), payload.size());
    }
    place->bytes = sizeof(Frame) + payload.size();
    Result<collectives::Transport::Ticket> sent =
        transport_.send(rank_, collectives::Transport::Channel::messages, std::span(place->memory.get(), place->bytes));
    RUEDA_RETURN_IF_FAILED(sent.status());
    place->ticket = sent.value();
    place->under_way = true;
    ++sending_;
    ++sent_;
    return true;
}

/// Whether the transfer of the message has ended. Also true if it was never started.
Result<bool> NetworkLink::has_ended(Message& message) {
    if (!message.under_way) {
        return true;
    }
    const Result<std::optional<std::size_t>> bytes = transport_.test(message.ticket);
    RUEDA_RETURN_IF_FAILED(bytes.status());
    if (!bytes.value()) {
        return false;
    }
    if (*bytes.value() != message.bytes) {
        return failure(ErrorCode::aborted, "a message of rank {} has {} bytes; {} were announced", rank_,
                       *bytes.value(), message.bytes);
    }
    message.under_way = false;
    return true;
}

Result<bool> NetworkLink::has_left(Message& message) {
    const bool was_under_way = message.under_way;
    Result<bool> ended = has_ended(message);
    sending_ -= was_under_way && !message.under_way ? 1 : 0;
    return ended;
}

std::unique_ptr<std::byte[]> NetworkLink::room() {
    if (free_.empty()) {
        return std::make_unique_for_overwrite<std::byte[]>(kFrameBytes);
    }
    auto memory = std::move(free_.back());
    free_.pop_back();
    return memory;
}

Status NetworkLink::take(std::size_t bytes) {
    if (bytes < sizeof(Frame) || bytes > kFrameBytes) {
        return failure(ErrorCode::internal, "rank {} sent a frame of {} bytes; expected {} to {}", rank_, bytes,
                       sizeof(Frame), kFrameBytes);
    }
    Message& message = coming_.emplace_back();
    message.memory = room();
    message.bytes = bytes;
    Result<collectives::Transport::Ticket> receiving =
        transport_.receive(rank_, collectives::Transport::Channel::messages, std::span(message.memory.get(), bytes));
    RUEDA_RETURN_IF_FAILED(receiving.status());
    message.ticket = receiving.value();
    message.under_way = true;
    return {};
}

Result<std::optional<Link::Received>> NetworkLink::front() {
    for (Message& message : out_) {
        RUEDA_RETURN_IF_FAILED(has_left(message).status());
    }
    if (coming_.empty()) {
        return std::optional<Received>();
    }
    const Result<bool> ended = has_ended(coming_.front());
    RUEDA_RETURN_IF_FAILED(ended.status());
    if (!ended.value()) {
        return std::optional<Received>();
    }
    Received received;
    const Message& first = coming_.front();
    std::memcpy(&received.frame, first.memory.get(), sizeof(Frame));
    received.payload = std::span<const std::byte>(first.memory.get() + sizeof(Frame), first.bytes - sizeof(Frame));
    return std::optional(received);
}

void NetworkLink::pop() {
    if (free_.size() < kUnderWay) {
        free_.push_back(std::move(coming_.front().memory));
    }
    coming_.pop_front();
}

}  // namespace rueda::core
