// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The Rueda authors
#include "collectives/hierarchical/remote_exchange.hpp"

#include <algorithm>

#include "ops/reduce.hpp"

namespace rueda::collectives {
namespace {

constexpr std::uint64_t kExchangedChunk = 128 * 1024;

}  // namespace

RemoteExchange::RemoteExchange(HierarchicalSet& set)
    : set_(set),
      chunk_bytes_(set.options.network_chunk_bytes != 0
                       ? std::clamp<std::uint64_t>(set.options.network_chunk_bytes, 1, Transport::kMostBytes)
                       : kExchangedChunk) {}

void RemoteExchange::begin(const PairParts& parts) {
    parts_ = &parts;
    sent_ = opened_ = taken_ = 0;
    sending_ = {Way::out, 1, 0};
    opening_ = taking_ = {Way::in, 1, 0};
    settle(sending_);
    settle(opening_);
    settle(taking_);
}

std::uint32_t RemoteExchange::peer(const Cursor& cursor) const {
    const std::uint32_t size = set_.hosts.size();
    const std::uint32_t ahead = cursor.way == Way::out ? cursor.distance : size - cursor.distance;
    return (set_.hosts.my_rank() + ahead) % size;
}

Range RemoteExchange::part(const Cursor& cursor) const {
    const std::uint32_t rank = peer(cursor);
    if (set_.hosts.is_here(rank)) {
        return {};
    }
    return cursor.way == Way::out ? parts_->to[rank] : parts_->from[rank];
}

void RemoteExchange::settle(Cursor& cursor) const {
    while (!is_at_end(cursor) && cursor.offset >= part(cursor).bytes()) {
        ++cursor.distance;
        cursor.offset = 0;
    }
}

Range RemoteExchange::chunk(const Cursor& cursor) const {
    const Range all = part(cursor);
    return {all.begin + cursor.offset, std::min(all.begin + cursor.offset + chunk_bytes_, all.end)};
}

void RemoteExchange::advance(Cursor& cursor) const {
    cursor.offset += chunk_bytes_;
    settle(cursor);
}

std::byte* RemoteExchange::memory_of(Buffer& buffer) {
    if (buffer.memory == nullptr) {
        buffer.memory = set_.messages.allocate(chunk_bytes_);
    }
    return buffer.memory;
}

bool RemoteExchange::act(std::uint64_t& work) { return open() || send(work) || take(work); }

bool RemoteExchange::open() {
    if (is_at_end(opening_) || opened_ == taken_ + kBuffers) {
        return false;
    }
    Buffer& next = incoming_[opened_ % kBuffers];
    next.message = set_.messages.receive(peer(opening_), {memory_of(next), chunk(opening_).bytes()});
    ++opened_;
    advance(opening_);
    return true;
}

bool RemoteExchange::send(std::uint64_t& work) {
    Buffer& next = outgoing_[sent_ % kBuffers];
    if (is_at_end(sending_) || !set_.messages.has_ended(next.message)) {
        return false;
    }
    const Range range = chunk(sending_);
    ops::copy(memory_of(next), parts_->input + range.begin, range.bytes());
    next.message = set_.messages.send(peer(sending_), {next.memory, range.bytes()});
    work += range.bytes();
    ++sent_;
    advance(sending_);
    return true;
}

bool RemoteExchange::take(std::uint64_t& work) {
    Buffer& next = incoming_[taken_ % kBuffers];
    if (taken_ == opened_ || !set_.messages.has_ended(next.message)) {
        return false;
    }
    if (const Range range = chunk(taking_); parts_->output != nullptr) {
        ops::copy(parts_->output + range.begin, next.memory, range.bytes());
        work += range.bytes();
    }
    ++taken_;
    advance(taking_);
    return true;
}

bool RemoteExchange::is_done() {
    bool done = is_at_end(sending_) && is_at_end(taking_);
    for (Buffer& buffer : outgoing_) {
        done = set_.messages.has_ended(buffer.message) && done;
    }
    return done;
}

}  // namespace rueda::collectives
