// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The Rueda authors
#pragma once

#include <catch2/catch.hpp>
#include <cstdint>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "core/negotiation/tree_node.hpp"
#include "tests/core/negotiation/members.hpp"

namespace rueda::core::test {

inline TensorKey by_id(std::uint64_t id) { return {id, "", std::nullopt}; }
inline TensorKey by_name(std::string name) { return {0, std::move(name), std::nullopt}; }
inline TensorKey by_call(std::uint64_t call) { return {0, "", call}; }

/// The leaders of all hosts. Each host has `ranks_per_host` ranks with consecutive numbers. Every message between
/// leaders is encoded and decoded, and run() delivers it at once.
class Leaders {
public:
    struct Setting {
        std::uint32_t hosts = 1;
        std::uint32_t ranks_per_host = 1;
        std::uint32_t radix = 8;
        std::uint64_t fusion_threshold_bytes = 0;
        std::uint32_t batches_ahead = 2;
    };
    explicit Leaders(const Setting& setting) : setting_(setting), shape_{setting.hosts, setting.radix} {
        TreeNode::Options options;
        options.shape = shape_;
        options.fusion_threshold_bytes = setting.fusion_threshold_bytes;
        options.batches_ahead = setting.batches_ahead;
        for (std::uint32_t rank = 0; rank < ranks(); ++rank) {
            options.host_of.push_back(static_cast<std::int32_t>(rank / setting.ranks_per_host));
        }
        for (std::uint32_t host = 0; host < setting.hosts; ++host) {
            options.host = host;
            nodes_.push_back(std::make_unique<TreeNode>(options));
        }
        got_.resize(setting.hosts);
    }

    [[nodiscard]] TreeNode& operator[](std::uint32_t host) { return *nodes_[host]; }
    [[nodiscard]] std::uint32_t hosts() const { return setting_.hosts; }
    [[nodiscard]] std::uint32_t ranks() const { return setting_.hosts * setting_.ranks_per_host; }
    [[nodiscard]] const TreeShape& shape() const { return shape_; }

    /// Returns the claim (the announced metadata) of a host whose ranks all have the same
    /// metadata.
    [[nodiscard]] Claim claim_of(std::uint32_t host, const Metadata& metadata) const {
        const auto first = static_cast<std::int32_t>(host * setting_.ranks_per_host);
        return {metadata, {{first, first + static_cast<std::int32_t>(setting_.ranks_per_host) - 1}}};
    }
    void announce(std::uint32_t host, const TensorKey& key, const Metadata& metadata) {
        nodes_[host]->announce({key, {claim_of(host, metadata)}, {}});
    }
    void announce_everywhere(const TensorKey& key, const Metadata& metadata) {
        for (std::uint32_t host = 0; host < hosts(); ++host) {
            announce(host, key, metadata);
        }
    }
    void announce_everywhere(const TensorKey& key) {
        for (std::uint32_t host = 0; host < hosts(); ++host) {
            nodes_[host]->announce({key, {}, {}});
        }
    }

    /// Delivers messages until no leader has one to send. Returns the number of messages.
    int run() {
        int messages = 0;
        for (bool goes_on = true; goes_on;) {
            goes_on = false;
            for (std::uint32_t host = 0; host < hosts(); ++host) {
                for (const std::uint32_t neighbour : neighbours(host)) {
                    while (auto message = nodes_[host]->next_message(neighbour)) {
                        const Status status = deliver(host, neighbour, *message);
                        INFO(status.message());
                        REQUIRE(status.is_ok());
                        ++messages;
                        goes_on = true;
                    }
                }
            }
        }
        for (std::uint32_t host = 0; host < hosts(); ++host) {
            while (auto decision = nodes_[host]->next_decision()) {
                got_[host].push_back(std::move(*decision));
            }
            REQUIRE(nodes_[host]->status().is_ok());
        }
        return messages;
    }

    [[nodiscard]] std::vector<std::uint32_t> neighbours(std::uint32_t host) const {
        std::vector<std::uint32_t> neighbours = shape_.children(host);
        if (const auto parent = shape_.parent(host)) {
            neighbours.push_back(*parent);
        }
        return neighbours;
    }

    Status deliver(std::uint32_t from, std::uint32_t to, const TreeMessage& message) {
        const std::vector<std::byte> bytes = encode(message);
        REQUIRE(bytes.size() <= most_message_bytes(ranks()));
        auto parsed = parse_tree_message(bytes, ranks(), hosts());
        INFO(parsed.status().message());
        REQUIRE(parsed.is_ok());
        return nodes_[to]->receive(from, parsed.value());
    }

    /// Returns the decisions since the previous call of this function. Requires that all hosts have the same decisions.
    [[nodiscard]] std::vector<Decision> decisions() {
        for (std::uint32_t host = 1; host < hosts(); ++host) {
            REQUIRE(bytes_of_all(got_[host]) == bytes_of_all(got_[0]));
        }
        std::vector<Decision> all = got_[0];
        for (auto& got : got_) {
            got.clear();
        }
        return all;
    }
    [[nodiscard]] Decision only_decision() {
        const std::vector<Decision> all = decisions();
        REQUIRE(all.size() == 1);
        return all.front();
    }

    [[nodiscard]] static std::vector<std::byte> bytes_of_all(const std::vector<Decision>& decisions) {
        return encode(DownMessage{0, decisions});
    }

private:
    Setting setting_;
    TreeShape shape_;
    std::vector<std::unique_ptr<TreeNode>> nodes_;
    std::vector<std::vector<Decision>> got_;  ///< indexed by host
};

}  // namespace rueda::core::test
