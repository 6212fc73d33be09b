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

/// The tree of the hosts' leaders: host 0 is the root, host h has the children radix*h + 1 … radix*h + radix.
struct TreeShape {
    std::uint32_t hosts = 1;
    std::uint32_t radix = 8;

    [[nodiscard]] std::optional<std::uint32_t> parent(std::uint32_t host) const;
    [[nodiscard]] std::vector<std::uint32_t> children(std::uint32_t host) const;
};

/// One leader's part of the negotiation between hosts: gathers what its host and its children announce, passes it up
/// once its whole part of the tree has announced it, and passes the root's decisions down. On the root: decides.
/// Pure: no clock, no thread, no socket. docs/design/0002-several-hosts.md.
///
/// Threads: one at a time.
class TreeNode {
public:
    struct Options {
        std::uint32_t host = 0;
        TreeShape shape;
        std::vector<std::int32_t> host_of;    ///< by rank
        std::vector<std::int32_t> job_ranks;  ///< by rank, for texts; empty: the same
        std::uint64_t fusion_threshold_bytes = 0;
        std::uint32_t batches_ahead = 2;  ///< the root decides no further batch while so many are not executed
    };
    explicit TreeNode(Options options);

    // ---- what this host's ranks do ----------------------------------------------------------------------------
    /// All its ranks have announced a tensor; not before the last decision on it was handed out.
    void announce(Announcement announcement);
    /// The host will announce the name by name the next time. It has nothing pending in it. All hosts hold an id after
    /// each call of it; after a disagreement those that held it before.
    void release(std::uint64_t id);
    void shut_down(std::int32_t rank);
    /// All its ranks have shut down.
    void close();
    /// All its ranks have joined, `rank` the last: from now on the host is told what it is to announce, by decisions of
    /// the kind wanted, until all have joined.
    void join(std::int32_t rank);
    /// After that: none of its ranks has anything of its own pending.
    void settle();
    /// Root: so many of the batches that next_decision() handed out, since the beginning, are executed on this host.
    void executed(std::uint64_t batches);

    // ---- messages -----------------------------------------------------------------------------------------------
    /// From the parent or a child. Internal: what no working leader sends; the job has to end. Aborted: the reason of
    /// an AbortMessage. Heartbeats change nothing.
    [[nodiscard]] Status receive(std::uint32_t from_host, const TreeMessage& message);
    /// What is to be sent to a neighbour now, if anything; the caller asks when the last message to it has left.
    [[nodiscard]] std::optional<TreeMessage> next_message(std::uint32_t to_host);

    /// Internal once something was received, or announced here, that does not fit; from then on receive() returns it as
    /// well, whatever comes, and nothing is handed out any more.
    [[nodiscard]] const Status& status() const { return failure_; }

    // ---- decisions ------------------------------------------------------------------------------------------------
    /// The next one for this host, in order. A batch's calls come together: once the first is handed out, so are the
    /// rest by further calls, and nothing comes between them. What is wanted has a name, or a call number.
    [[nodiscard]] std::optional<Decision> next_decision();

    /// For the stall report: what this host (or its part of the tree) announced and the root has not decided on, with
    /// the hosts of this node's part of the tree that have not announced it. Of a child that has not, its whole part of
    /// the tree: who in it has, only the child knows.
    struct Pending {
        std::string name;  ///< "" without
        std::vector<std::uint32_t> missing_hosts;
    };
    [[nodiscard]] std::vector<Pending> pending() const;

private:
    /// Who announces to this node: its own host, or a child for its part of the tree.
    struct Contributor {
        std::vector<std::uint32_t> hosts;  ///< ascending
        std::vector<RankRange> ranks;      ///< united
        std::uint64_t joined_hosts = 0;    ///< of `hosts`, all of whose ranks have joined
        std::uint64_t settled_hosts = 0;
        [[nodiscard]] bool is_away() const { return joined_hosts == hosts.size(); }
    };
    /// A tensor that somebody announced and the root has not decided on.
    struct Entry {
        std::uint64_t order = 0;         ///< of the first announcements
        std::vector<std::uint32_t> who;  ///< contributors, as they announced
        bool by_name = false;            ///< somebody did
        std::uint64_t id = 0;            ///< as somebody did
        std::vector<Claim> claims;       ///< empty while nobody made any
        std::vector<HostRows> rows;
        std::vector<RankRange> joined;     ///< united, as the next
        std::vector<RankRange> uncounted;  ///< in one of the two
        std::vector<std::uint32_t> asked;  ///< contributors that were told that it is wanted
    };
    /// For one contributor, behind the decisions before `position`.
    struct Wanted {
        std::uint64_t position = 0;
        Decision decision;
    };
    struct Child {
        std::uint64_t taken = 0;         ///< number of its last message
        std::uint64_t acknowledged = 0;  ///< number that it was last told
        std::uint64_t sent = 0;          ///< decisions before this position are sent
        std::uint64_t closed_hosts = 0;
        std::deque<Wanted> wanted;
    };
    /// To the parent, behind the message that is under way.
    struct Outbox {
        std::map<std::uint64_t, std::uint32_t> releases;  ///< hosts by id
        std::deque<Announcement> announcements;
        std::deque<std::int32_t> joined;
        std::deque<std::int32_t> shutting_down;
        std::uint32_t settled_hosts = 0;
        std::uint32_t closed_hosts = 0;
    };

    static constexpr std::uint32_t kOwn = 0;  ///< contributor; child i is i + 1

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

    /// A decision has come, or was taken: learns from it, and keeps it for the children and for this host.
    [[nodiscard]] Status pass_on(Decision decision);
    [[nodiscard]] Status learn(const Decision& decision);
    void begin_closing();
    void draw_from_root();
    void drop_what_everybody_has();
    [[nodiscard]] std::optional<TreeMessage> message_up();
    [[nodiscard]] std::optional<TreeMessage> message_down(Child& child);

    Status note(Status status);

    Options options_;
    std::size_t most_bytes_ = 0;                            ///< of a message
    std::vector<Contributor> contributors_;                 ///< own host, then the children in order
    std::vector<std::uint32_t> contributor_of_;             ///< by host
    std::vector<std::uint32_t> ranks_on_;                   ///< by host
    std::optional<TreeRoot> root_;                          ///< on the root
    std::unordered_map<std::uint64_t, std::string> names_;  ///< by id
    std::unordered_map<std::string, Entry> pending_;
    std::unordered_map<std::uint64_t, Entry> pending_calls_;  ///< without names, by call number
    std::uint64_t entries_ = 0;                               ///< that ever were

    Outbox outbox_;
    std::uint64_t last_sent_up_ = 0;  ///< number
    std::uint64_t acknowledged_up_ = 0;

    std::deque<Decision> decisions_;    ///< that somebody still has to get
    std::uint64_t first_decision_ = 0;  ///< position of the front
    std::uint64_t whole_ = 0;           ///< position behind the last that ends a batch, or is no call
    std::uint64_t handed_out_ = 0;
    bool within_batch_ = false;  ///< the rest of the batch is still to be handed out
    std::deque<Wanted> wanted_;  ///< of this host
    std::vector<Child> children_;
    bool closing_ = false;
    bool closed_ = false;
    Status failure_;
};

}  // namespace rueda::core
