// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The Rueda authors
#pragma once

#include <cstdint>
#include <deque>
#include <map>
#include <optional>
#include <span>
#include <string>
#include <unordered_map>
#include <vector>

#include "base/status.hpp"
#include "core/negotiation/tree_messages.hpp"
#include "core/negotiation/tree_root.hpp"

namespace rueda::core {

/// The tree of the hosts' leaders: host 0 is the root, and host h has the children radix*h + 1 … radix*h + radix.
struct TreeShape {
    std::uint32_t hosts = 1;
    std::uint32_t radix = 8;

    [[nodiscard]] std::optional<std::uint32_t> parent(std::uint32_t host) const;
    [[nodiscard]] std::vector<std::uint32_t> children(std::uint32_t host) const;
};

/// One leader's part of the negotiation between hosts. It gathers the announcements of its host and of its children.
/// When its whole part of the tree has announced a tensor, it reports this to its parent. It passes the root's
/// decisions on to its children. The root's node also makes the decisions. Pure: it uses no clock, no thread and no
/// socket. See docs/design/0002-several-hosts.md.
///
/// Threads: one at a time.
class TreeNode {
public:
    struct Options {
        std::uint32_t host = 0;
        TreeShape shape;
        std::vector<std::int32_t> host_of;    ///< by rank
        std::vector<std::int32_t> job_ranks;  ///< by rank: numbers for texts; empty if they are the same numbers
        std::uint64_t fusion_threshold_bytes = 0;
        /// while this many batches are not executed, the root decides no further batch
        std::uint32_t batches_ahead = 2;
    };
    explicit TreeNode(Options options);

    // ---- what this host's ranks do ----------------------------------------------------------------------------
    /// Call this when all ranks of the host have announced a tensor, and only after next_decision() has returned the
    /// last decision about that tensor.
    void announce(Announcement announcement);
    /// The host gives up the id. Nothing may be pending for the tensor, which the host will announce by name the next
    /// time. After a call, all hosts hold the id again. After a disagreement, only the hosts that held the id before
    /// still hold it.
    void release(std::uint64_t id);
    void shut_down(std::int32_t rank);
    /// Call this when all ranks of the host have shut down.
    void close();
    /// Call this when all ranks of the host have joined, `rank` last. After this, decisions of kind `wanted` tell the
    /// host what to announce, until all ranks of the job have joined.
    void join(std::int32_t rank);
    /// Call this after join(), when no rank of the host has an operation of its own pending.
    void settle();
    /// Only on the root: this host has executed this many of the batches that next_decision() has returned since the
    /// beginning.
    void executed(std::uint64_t batches);

    // ---- messages -----------------------------------------------------------------------------------------------
    /// Handles a message from the parent or from a child. Fails with Internal if no correct leader sends this message;
    /// then the job must end. Fails with Aborted and the reason if it is an AbortMessage. Heartbeats have no effect.
    [[nodiscard]] Status receive(std::uint32_t from_host, const TreeMessage& message);
    /// Returns the message to send to a neighbour now, if any. The caller calls this again when the last message to
    /// that neighbour was sent.
    [[nodiscard]] std::optional<TreeMessage> next_message(std::uint32_t to_host);

    /// The status of this node. It becomes Internal after this node received something, or something was announced on
    /// this host, that contradicts earlier messages. After that, receive() returns this failure for every message, and
    /// next_decision() returns no decision.
    [[nodiscard]] const Status& status() const { return failure_; }

    // ---- decisions ------------------------------------------------------------------------------------------------
    /// Returns the next decision for this host, in order. The calls of a batch come one after the other, and no other
    /// decision comes between them. A decision of kind `wanted` has a name or a call number.
    [[nodiscard]] std::optional<Decision> next_decision();

    /// For the stall report: the tensors that this host or its part of the tree has announced and that the root has not
    /// decided on. Each has the hosts that have not announced it. If a child has not announced a tensor, all hosts of
    /// the child's part of the tree are listed, because only the child knows which of them have announced it.
    struct Pending {
        std::string name;  ///< "" if the operation has no name
        std::vector<std::uint32_t> missing_hosts;
    };
    [[nodiscard]] std::vector<Pending> pending() const;

private:
    /// A source of announcements for this node: its own host, or a child together with its part of the tree.
    struct Contributor {
        std::vector<std::uint32_t> hosts;  ///< ascending
        std::vector<RankRange> ranks;      ///< a result of united()
        std::uint64_t joined_hosts = 0;    ///< the number of hosts of this contributor on which all ranks have joined
        std::uint64_t settled_hosts = 0;
        [[nodiscard]] bool is_away() const { return joined_hosts == hosts.size(); }
    };
    /// A tensor that some contributor has announced and that the root has not decided on.
    struct Entry {
        std::uint64_t order = 0;         ///< entries are ordered by their first announcement
        std::vector<std::uint32_t> who;  ///< contributors, in the order in which they announced
        bool by_name = false;            ///< some contributor announced by name
        std::uint64_t id = 0;            ///< the id with which some contributor announced
        std::vector<Claim> claims;       ///< empty while no contributor has made a claim
        std::vector<HostRows> rows;
        std::vector<RankRange> joined;     ///< `joined` and `uncounted` are results of united()
        std::vector<RankRange> uncounted;  ///< each joined rank is in one of the two lists
        std::vector<std::uint32_t> asked;  ///< contributors that were asked to announce the tensor
    };
    /// A request to one contributor to announce a tensor. It must be sent after all decisions before `position`.
    struct Wanted {
        std::uint64_t position = 0;
        Decision decision;
    };
    struct Child {
        std::uint64_t taken = 0;         ///< number of the child's last message
        std::uint64_t acknowledged = 0;  ///< number of the child's message that was last acknowledged
        std::uint64_t sent = 0;          ///< decisions before this position were sent to the child
        std::uint64_t closed_hosts = 0;
        std::deque<Wanted> wanted;
    };
    /// All parts of the next message to the parent, which is sent after the current message was acknowledged.
    struct Outbox {
        std::map<std::uint64_t, std::uint32_t> releases;  ///< number of hosts, by id
        std::deque<Announcement> announcements;
        std::deque<std::int32_t> joined;
        std::deque<std::int32_t> shutting_down;
        std::uint32_t settled_hosts = 0;
        std::uint32_t closed_hosts = 0;
    };

    static constexpr std::uint32_t kOwn = 0;  ///< contributor number of this host; child i has number i + 1

    void find_contributors(const std::vector<std::int32_t>& host_of);
    [[nodiscard]] std::optional<std::uint32_t> child_number(std::uint32_t host) const;

    [[nodiscard]] Status take(std::uint32_t from_host, const TreeMessage& message);
    [[nodiscard]] Status take(const UpMessage& message, std::uint32_t child);
    [[nodiscard]] Status take(const DownMessage& message);
    [[nodiscard]] Status take_announcement(Announcement announcement, std::uint32_t contributor);
    [[nodiscard]] Status take_release(const Release& release, std::uint32_t contributor);
    [[nodiscard]] Status take_shutdown(std::int32_t rank, std::uint32_t contributor);
    [[nodiscard]] Status take_closed(std::uint32_t hosts);
    [[nodiscard]] Status take_joined(std::int32_t rank, std::uint32_t contributor);
    [[nodiscard]] Status take_settled(std::uint32_t hosts, std::uint32_t contributor);
    [[nodiscard]] Status take_wanted(const Decision& wanted);
    [[nodiscard]] Status end_joins();
    void ask(const TensorKey& key, Entry& entry);
    [[nodiscard]] std::optional<Decision> next_wanted();

    [[nodiscard]] Result<TensorKey> key_of(const TensorKey& announced) const;
    [[nodiscard]] Entry* find(const TensorKey& key);
    Entry& find_or_add(const TensorKey& key);
    void erase(const TensorKey& key);
    [[nodiscard]] Status check(const Announcement& announcement, std::uint32_t contributor) const;
    void gather(Entry& entry, Announcement announcement, std::uint32_t contributor);
    [[nodiscard]] std::vector<RankRange> active_of(const Entry& entry, std::uint32_t contributor) const;
    [[nodiscard]] Status complete(const TensorKey& key, Entry& entry);
    [[nodiscard]] Pending pending_of(const std::string& name, const Entry& entry) const;

    /// Handles a decision that was received, or that the root made: updates the state of this node, and keeps the
    /// decision for the children and for this host.
    [[nodiscard]] Status pass_on(Decision decision);
    [[nodiscard]] Status learn(const Decision& decision);
    void begin_closing();
    void draw_from_root();
    void drop_what_everybody_has();
    [[nodiscard]] std::optional<TreeMessage> message_up();
    [[nodiscard]] std::optional<TreeMessage> message_down(Child& child);

    Status note(Status status);

    Options options_;
    std::size_t most_bytes_ = 0;                            ///< maximum length of a message
    std::vector<Contributor> contributors_;                 ///< this host, then the children in their order
    std::vector<std::uint32_t> contributor_of_;             ///< index: the host
    std::vector<std::uint32_t> ranks_on_;                   ///< index: the host
    std::optional<TreeRoot> root_;                          ///< only on the root
    std::unordered_map<std::uint64_t, std::string> names_;  ///< by id
    std::unordered_map<std::string, Entry> pending_;
    std::unordered_map<std::uint64_t, Entry> pending_calls_;  ///< operations without names, by call number
    std::uint64_t entries_ = 0;                               ///< the number of entries since the beginning

    Outbox outbox_;
    std::uint64_t last_sent_up_ = 0;  ///< number of the last message to the parent
    std::uint64_t acknowledged_up_ = 0;

    std::deque<Decision> decisions_;    ///< decisions that this host or some child has not got yet
    std::uint64_t first_decision_ = 0;  ///< position of the first of decisions_
    std::uint64_t whole_ = 0;           ///< position behind the last decision that ends a batch or is no call
    std::uint64_t handed_out_ = 0;
    bool within_batch_ = false;  ///< the host has got only a part of a batch
    std::deque<Wanted> wanted_;  ///< requests to this host
    std::vector<Child> children_;
    bool closing_ = false;
    bool closed_ = false;
    Status failure_;
};

}  // namespace rueda::core
