// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The Rueda authors
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <unordered_map>
#include <vector>

#include "base/status.hpp"
#include "core/negotiation/tree_messages.hpp"

namespace rueda::core {

/// The part of the tree's root. Besides gathering announcements, it compares what the ranks mean, assigns ids,
/// forms batches, and puts all decisions in one order. Pure. See docs/design/0002-several-hosts.md.
///
/// Threads: one at a time.
class TreeRoot {
public:
    struct Options {
        std::vector<std::vector<std::int32_t>> ranks_of_host;  ///< in ascending order
        std::uint32_t ranks = 0;
        std::vector<std::int32_t> job_ranks;  ///< by rank: numbers for texts; empty if they are the same numbers
        std::uint64_t fusion_threshold_bytes = 0;
        std::uint32_t batches_ahead = 2;
    };
    explicit TreeRoot(Options options) : options_(std::move(options)) {}

    /// Call this when all ranks of all hosts have announced a tensor: by id if all hosts used the id, otherwise by
    /// name. The claims and first dimensions must have been checked against the hosts that they came from.
    [[nodiscard]] Status complete(Announcement announcement);
    /// `pending`: some host has announced the same name again.
    [[nodiscard]] Status release(const Release& release, bool pending);
    /// The first shutdown closes the set: operations that were not decided before will never be called.
    void shut_down(std::int32_t rank);
    [[nodiscard]] Status close(std::uint32_t hosts);
    /// Call this when all ranks of a host have joined, `rank` last.
    void join(std::int32_t rank) { last_joined_ = rank; }
    /// This many more hosts have settled. When all hosts have settled, the join ends.
    [[nodiscard]] Status settle(std::uint32_t hosts);
    /// The number of batches that are executed, counted from the beginning.
    void executed(std::uint64_t batches) { executed_ = batches; }

    /// Returns the new decisions, in order. The open batch is also closed and called, if few enough batches are not
    /// executed yet.
    [[nodiscard]] std::vector<Decision> take_decisions();

private:
    /// A name that has an id.
    struct Name {
        std::string name;
        std::optional<Metadata> last_called;
        std::uint32_t released_hosts = 0;  ///< counted since the last call; after a call, all hosts hold the id
    };

    /// The id of the tensor; 0: none.
    [[nodiscard]] std::uint64_t id_of(const TensorKey& key) const;
    [[nodiscard]] Status call(Announcement announcement, const Metadata& metadata, std::uint64_t id);
    /// `kind` is disagreed, impossible or lacks_joined. `groups`: only for a disagreement, the result of
    /// sizes_of_groups().
    void refuse(Announcement announcement, DecisionKind kind, const Status& reason, std::uint64_t id,
                std::vector<std::int64_t> groups = {});
    [[nodiscard]] std::vector<std::int64_t> sizes_of_groups(const Announcement& announcement,
                                                            const std::optional<Metadata>& last_called) const;
    [[nodiscard]] Status impossible(const Announcement& announcement, const Metadata& metadata,
                                    const Name* known) const;
    [[nodiscard]] Status lacks(const Announcement& announcement, const Metadata& metadata, const Name* known) const;
    [[nodiscard]] Result<std::vector<std::int64_t>> rows_by_rank(const Announcement& announcement) const;
    std::uint64_t new_id(const std::string& name);
    void forget_if_nobody_holds(std::uint64_t id);

    /// Adds a call to the open batch; closes the batch if no further call could join it.
    void join_batch(Decision call, Fusion fusion);
    void end_batch();
    /// Adds a decision that is not a call.
    void decide(Decision decision);

    Options options_;
    std::unordered_map<std::uint64_t, Name> names_;  ///< by id
    std::unordered_map<std::string, std::uint64_t> ids_;
    std::uint64_t last_id_ = 0;
    std::vector<Decision> batch_;  ///< the open batch
    Fusion batch_fusion_ = Fusion::alone;
    std::uint64_t batch_bytes_ = 0;
    std::vector<Decision> decided_;
    std::uint64_t batches_ = 0;  ///< number of batches that were closed
    std::uint64_t executed_ = 0;
    std::uint64_t closed_hosts_ = 0;
    std::uint64_t settled_hosts_ = 0;
    std::int32_t last_joined_ = 0;  ///< valid after a rank has joined
    bool closing_ = false;
};

}  // namespace rueda::core
