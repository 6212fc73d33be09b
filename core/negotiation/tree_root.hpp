// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The Rueda authors
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <unordered_map>
#include <vector>

#include "base/status.hpp"
#include "core/negotiation/carried.hpp"
#include "core/negotiation/tree_messages.hpp"

namespace rueda::core {

/// The work that only the root's node does: it compares claims, assigns ids, forms batches, and puts all decisions in
/// one order. The class uses no clock, no thread and no socket. See docs/design/0002-several-hosts.md.
///
/// Threads: one at a time.
class TreeRoot {
public:
    struct Options {
        std::vector<std::vector<std::int32_t>> ranks_of_host;  ///< for each host: its ranks in ascending order
        std::uint32_t ranks = 0;
        /// For each rank of the set: its number in the job, which error messages show. Empty if the numbers are the
        /// same.
        std::vector<std::int32_t> job_ranks;
        std::uint64_t fusion_threshold_bytes = 0;
        std::uint32_t batches_ahead = 2;
    };
    explicit TreeRoot(Options options) : options_(std::move(options)) {}

    /// Handles a tensor that all ranks of all hosts have announced. The key of `announcement` is the id if all hosts
    /// used the id, otherwise the name. The caller must have checked that the claims and first dimensions belong to the
    /// hosts that sent them. `inputs` are the partial results of all hosts, in the order of the hosts, if all
    /// announcements carried them; otherwise empty.
    [[nodiscard]] Status complete(Announcement announcement, std::vector<CarriedBytes> inputs = {});
    /// Records that some hosts no longer use an id. `pending` is true if a host has already announced the tensor again,
    /// by its name.
    [[nodiscard]] Status release(const Release& release, bool pending);
    /// Records that a rank has shut down. After the first shutdown, no operation is called any more.
    void shut_down(std::int32_t rank);
    [[nodiscard]] Status close(std::uint32_t hosts);
    /// Records that all ranks of a host have joined; `rank` joined last.
    void join(std::int32_t rank) { last_joined_ = rank; }
    /// Counts `hosts` more hosts that have settled. A host has settled when all its ranks have joined and none of them
    /// has a pending operation. When all hosts have settled, the join ends.
    [[nodiscard]] Status settle(std::uint32_t hosts);
    /// Sets the number of executed batches, counted since the beginning.
    void executed(std::uint64_t batches) { executed_ = batches; }

    /// Returns the metadata of the tensor's last call, if the root's next decision can be a call of this tensor that is
    /// a batch of its own. Returns nothing if the root has other decisions or calls to make, or if a batch is not
    /// executed yet: while batches run, other tensors become ready, and should share a batch. Also returns nothing if
    /// `input` (the partial result of a host, or empty) does not belong to the tensor.
    [[nodiscard]] std::optional<Metadata> offered(std::uint64_t id, const CarriedBytes& input) const;

    /// Returns the new decisions, in order. If fewer than `batches_ahead` batches wait for their execution, this
    /// function also closes the open batch (the batch that may still grow) and calls it.
    [[nodiscard]] std::vector<Decision> take_decisions();

private:
    /// The root keeps one object of this type for each name that has an id.
    struct Name {
        std::string name;
        std::optional<Metadata> last_called;
        /// How many hosts released the id since the last call. A call gives the id to all hosts again.
        std::uint32_t released_hosts = 0;
    };

    /// Returns the id of the tensor, or 0 if it has none.
    [[nodiscard]] std::uint64_t id_of(const TensorKey& key) const;
    [[nodiscard]] Status call(Announcement announcement, const Metadata& metadata, std::uint64_t id,
                              std::vector<CarriedBytes> inputs);
    [[nodiscard]] bool is_called_at_once() const;
    [[nodiscard]] Result<CarriedBytes> result_of(const Metadata& metadata, std::vector<CarriedBytes> inputs) const;
    /// `kind` is `disagreed`, `impossible` or `lacks_joined`. `groups` is the result of sizes_of_groups() for
    /// `disagreed`, otherwise empty.
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

    /// Adds a call to the open batch. Closes the batch if no further call can be added.
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
    std::int32_t last_joined_ = 0;  ///< the rank that joined last; valid only after a rank has joined
    bool closing_ = false;
};

}  // namespace rueda::core
