// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The Rueda authors
#include "core/hosts/host_tree.hpp"

#include <sched.h>

#include <memory>
#include <new>

#include "base/system/clock.hpp"
#include "core/negotiation/tree_messages.hpp"

namespace rueda::core {

using collectives::Transport;

namespace {

constexpr std::int64_t kMomentNs = 200'000'000;

}  // namespace

TreeShape tree_of(const collectives::LocalGroup& group) {
    TreeShape shape;
    shape.hosts = static_cast<std::uint32_t>(group.host_count);
    return shape;
}

std::vector<std::uint32_t> neighbours_of(const collectives::LocalGroup& group) {
    const TreeShape shape = tree_of(group);
    const auto host = static_cast<std::uint32_t>(group.host_index);
    std::vector<std::uint32_t> neighbours = shape.children(host);
    if (const auto parent = shape.parent(host)) {
        neighbours.insert(neighbours.begin(), *parent);
    }
    return neighbours;
}

std::optional<int> rank_of_host(const collectives::LocalGroup& group, std::uint32_t host, int number) {
    for (int rank = 0; rank < group.size; ++rank) {
        if (group.host_of[static_cast<std::size_t>(rank)] == static_cast<int>(host) && number-- == 0) {
            return rank;
        }
    }
    return std::nullopt;
}

void tell_neighbours(Transport& transport, const collectives::LocalGroup& group, Transport::Channel channel,
                     const Status& reason) noexcept try {
    const auto words = std::make_shared<std::vector<std::byte>>(
        encode(AbortMessage{static_cast<std::int32_t>(reason.code()), reason.message()}));
    collectives::keep_for_good(words);
    std::vector<Transport::Ticket> leaving;
    for (const std::uint32_t host : neighbours_of(group)) {
        const Result<Transport::Ticket> sending = transport.send(*rank_of_host(group, host, 0), channel, *words);
        if (sending.is_ok()) {
            leaving.push_back(sending.value());
        }
    }
    const std::int64_t deadline = base::monotonic_ns() + kMomentNs;
    while (!leaving.empty() && base::monotonic_ns() < deadline) {
        std::erase_if(leaving, [&](Transport::Ticket ticket) {
            const Result<std::optional<std::size_t>> sent = transport.test(ticket);
            return !sent.is_ok() || sent.value().has_value();
        });
        sched_yield();
    }
} catch (const std::bad_alloc&) {
    // There was no memory for the message. Without it, the other hosts notice the end of this job later: when a
    // connection breaks, or after RUEDA_HOST_TIMEOUT.
    static_cast<void>(reason);
}

}  // namespace rueda::core
