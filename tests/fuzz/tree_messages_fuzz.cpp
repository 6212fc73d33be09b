// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The Rueda authors
// Fuzzes messages between the leaders of several hosts. Encoding an accepted message again must give the same bytes,
// and the computed length must be right. A node must survive every accepted message.
#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <span>
#include <utility>
#include <variant>
#include <vector>

#include "core/negotiation/tree_messages.hpp"
#include "core/negotiation/tree_node.hpp"

namespace {

using namespace rueda;
using namespace rueda::core;

constexpr std::uint32_t kRanks = 8;
constexpr std::uint32_t kHosts = 4;

void expect(bool holds) {
    if (!holds) {
        std::abort();
    }
}

std::size_t known_bytes(const UpMessage& message) {
    std::size_t bytes = empty_message_bytes() + kReleaseBytes * message.releases.size() +
                        kShuttingDownBytes * message.shutting_down.size() + kJoinedBytes * message.joined.size();
    for (const Announcement& announcement : message.announcements) {
        bytes += encoded_bytes(announcement);
    }
    return bytes;
}

/// Gives the message to the leader of `host`, which has already announced "a" and an unnamed operation. Hosts 0 to 3
/// form a chain. Each host has two ranks.
void take_in(std::uint32_t host, std::uint32_t from, const TreeMessage& message) {
    TreeNode node({.host = host, .shape = {kHosts, 1}, .host_of = {0, 0, 1, 1, 2, 2, 3, 3}});
    const auto first = static_cast<std::int32_t>(2 * host);
    node.announce({{0, "a", std::nullopt}, {{Metadata(), {{first, first + 1}}}}, {}});
    node.announce({{0, "", 0}, {{Metadata(), {{first, first + 1}}}}, {}});
    (void)node.next_message(host - 1);
    const bool accepted = node.receive(from, message).is_ok();
    expect(accepted == node.status().is_ok() || std::holds_alternative<AbortMessage>(message));
    for (const std::uint32_t to : {host - 1, host + 1}) {
        while (const auto next = node.next_message(to)) {
            expect(parse_tree_message(encode(*next), kRanks, kHosts).is_ok());
        }
    }
    while (node.next_decision()) {
    }
    (void)node.pending();
}

Metadata sum_of_two_floats() {
    Metadata metadata;
    metadata.operation = static_cast<std::uint8_t>(collectives::Operation::allreduce);
    metadata.dtype = static_cast<std::uint8_t>(DType::float32);
    metadata.reduce_op = static_cast<std::uint8_t>(ReduceOp::sum);
    metadata.ndim = 1;
    metadata.shape[0] = 2;
    return metadata;
}

/// Gives the message to the root of a flat tree. All hosts have called the tensor of id 1, and the other hosts have
/// announced it again with their inputs.
void take_in_inputs(const TreeMessage& message) {
    const Metadata metadata = sum_of_two_floats();
    TreeNode root({.host = 0, .shape = {kHosts, 8}, .host_of = {0, 0, 1, 1, 2, 2, 3, 3}});
    const auto deliver = [&root](std::uint32_t host, std::uint64_t number, Announcement announcement) {
        UpMessage up;
        up.number = number;
        up.announcements.push_back(std::move(announcement));
        expect(host == 0 || root.receive(host, up).is_ok());
    };
    const Announcement with_input{{1, "", std::nullopt}, {}, {}, {}, {}, std::vector<std::byte>(8)};
    for (std::uint32_t host = 0; host < kHosts; ++host) {
        const auto first = static_cast<std::int32_t>(2 * host);
        const Announcement with_name{{0, "a", std::nullopt}, {{metadata, {{first, first + 1}}}}, {}};
        host == 0 ? root.announce(with_name) : deliver(host, 1, with_name);
    }
    for (std::uint32_t host = 1; host < kHosts; ++host) {
        expect(root.next_message(host).has_value());
    }
    while (root.next_decision()) {
    }
    root.executed(1);
    root.announce(with_input);
    deliver(2, 2, with_input);
    deliver(3, 2, with_input);
    expect(root.status().is_ok());
    if (const auto* up = std::get_if<UpMessage>(&message)) {
        UpMessage next = *up;
        next.number = 2;  // so that the input need not guess the number
        const bool accepted = root.receive(1, next).is_ok();
        expect(accepted == root.status().is_ok());
    } else {
        (void)root.receive(1, message);
    }
    while (const auto down = root.next_message(1)) {
        expect(parse_tree_message(encode(*down), kRanks, kHosts).is_ok());
    }
    while (const auto decision = root.next_decision()) {
        expect(decision->result.empty() || decision->result.size() == decision->bytes);
    }
}

/// Gives the message to one of two leaders, while the root's offer of the tensor of id 1 is open. If `to` is the child,
/// the child has announced the tensor already if `has_announced` is true.
void take_in_offer(std::uint32_t to, bool has_announced, const TreeMessage& message) {
    const Metadata metadata = sum_of_two_floats();
    std::vector<TreeNode> nodes;
    nodes.reserve(2);
    for (std::uint32_t host = 0; host < 2; ++host) {
        nodes.emplace_back(TreeNode::Options{.host = host, .shape = {2, 8}, .host_of = {0, 1}});
        const auto rank = static_cast<std::int32_t>(host);
        nodes[host].announce({{0, "a", std::nullopt}, {{metadata, {{rank, rank}}}}, {}});
    }
    expect(nodes[0].receive(1, *nodes[1].next_message(0)).is_ok());
    expect(nodes[1].receive(0, *nodes[0].next_message(1)).is_ok());
    for (TreeNode& node : nodes) {
        expect(node.next_decision().has_value());
    }
    nodes[0].executed(1);
    const Announcement with_input{{1, "", std::nullopt}, {}, {}, {}, {}, std::vector<std::byte>(8)};
    nodes[0].announce(with_input);
    expect(nodes[0].next_message(1).has_value());
    if (has_announced) {
        nodes[1].announce(with_input);
        expect(nodes[1].next_message(0).has_value());
    }
    TreeMessage next = message;
    if (auto* up = std::get_if<UpMessage>(&next)) {
        up->number = 2;  // so that the input need not guess the number
    } else if (auto* withdrawal = std::get_if<WithdrawalMessage>(&next)) {
        withdrawal->taken = 1;
    } else if (auto* down = std::get_if<DownMessage>(&next)) {
        down->acknowledged = 1;
    }
    const bool accepted = nodes[to].receive(1 - to, next).is_ok();
    expect(accepted == nodes[to].status().is_ok() || std::holds_alternative<AbortMessage>(message));
    nodes[to].announce(with_input);
    while (const auto answer = nodes[to].next_message(1 - to)) {
        expect(parse_tree_message(encode(*answer), kRanks, kHosts).is_ok());
    }
    while (nodes[to].next_decision()) {
    }
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
    const std::span<const std::byte> bytes(reinterpret_cast<const std::byte*>(data), size);
    const auto message = parse_tree_message(bytes, kRanks, kHosts);
    if (!message.is_ok()) {
        expect(message.status().code() == ErrorCode::internal && !message.status().message().empty());
        return 0;
    }
    const auto again = encode(message.value());
    expect(std::equal(again.begin(), again.end(), bytes.begin(), bytes.end()));
    if (const auto* up = std::get_if<UpMessage>(&message.value())) {
        expect(known_bytes(*up) == size);
    }
    take_in(0, 1, message.value());
    take_in(1, 2, message.value());
    take_in(1, 0, message.value());
    take_in(3, 2, message.value());
    take_in_inputs(message.value());
    take_in_offer(0, false, message.value());
    take_in_offer(1, false, message.value());
    take_in_offer(1, true, message.value());
    return 0;
}
