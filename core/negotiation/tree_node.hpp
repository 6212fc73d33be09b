// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The Rueda authors
#pragma once

#include <cstdint>
#include <deque>
#include <functional>
#include <map>
#include <optional>
#include <span>
#include <string>
#include <unordered_map>
#include <vector>

#include "base/status.hpp"
#include "core/negotiation/carried.hpp"
#include "core/negotiation/tree_messages.hpp"
#include "core/negotiation/tree_root.hpp"

namespace rueda::core {

/// The tree of the hosts' leaders. Host 0 is the root; host h has the children radix*h + 1 … radix*h + radix.
struct TreeShape {
    std::uint32_t hosts = 1;
    std::uint32_t radix = 8;

    [[nodiscard]] std::optional<std::uint32_t> parent(std::uint32_t host) const;
    [[nodiscard]] std::vector<std::uint32_t> children(std::uint32_t host) const;
    /// Whether all other leaders are children of the root. Only then announcements carry inputs: otherwise, the leaders
    /// in between would have to pass on the inputs of their whole subtrees.
    [[nodiscard]] bool is_star() const { return hosts <= radix + 1; }
};

/// One leader's part of the negotiation between hosts. A node gathers the announcements of its host and of its
/// children. When its whole subtree has announced a tensor, the node reports this to its parent. The node passes the
/// root's decisions on to its children; the root's node also makes the decisions. The class uses no clock, no thread
/// and no socket. See docs/design/0002-several-hosts.md.
///
/// Threads: one at a time.
class TreeNode {
public:
    struct Options {
        std::uint32_t host = 0;
        TreeShape shape;
        std::vector<std::int32_t> host_of;  ///< for each rank: its host
        /// For each rank of the set: its number in the job, which error messages show. Empty if the numbers are the
        /// same.
        std::vector<std::int32_t> job_ranks;
        std::uint64_t fusion_threshold_bytes = 0;
        /// The maximum number of batches that are decided, but not executed yet. While so many batches wait, the root
        /// decides no further batch.
        std::uint32_t batches_ahead = 2;
    };
    explicit TreeNode(Options options);

    /// Reports that all ranks of the host have announced a tensor. Call this only after next_decision() has returned
    /// the previous decision about the same tensor.
    void announce(Announcement announcement);
    /// Reports that the host stops using the id. For its next announcement, the host will use the name of the tensor.
    /// No announcement of this tensor may be pending. A later call of the tensor gives the id to all hosts again. A
    /// refusal of the tensor does not.
    void release(std::uint64_t id);
    void shut_down(std::int32_t rank);
    /// Reports that all ranks of the host have shut down.
    void close();
    /// Reports that all ranks of the host have joined; `rank` joined last. Until all ranks of the job have joined,
    /// decisions of kind `wanted` say which tensors the host must announce.
    void join(std::int32_t rank);
    /// Reports that no rank of the host has a pending operation of its own. Call this after join().
    void settle();
    /// Tells the root how many of the batches that next_decision() has returned so far were executed. Call this only on
    /// the root.
    void executed(std::uint64_t batches);

    /// Handles a message from the parent or from a child. Heartbeats have no effect. If no correct leader sends such a
    /// message, the result is an Internal error, and the job must end. For an AbortMessage, the result is an Aborted
    /// error with the text of the message.
    [[nodiscard]] Status receive(std::uint32_t from_host, const TreeMessage& message);
    /// Returns the message to send to a neighbour now, if any. Call this again after the message was sent.
    [[nodiscard]] std::optional<TreeMessage> next_message(std::uint32_t to_host);

    /// The status of this node. It becomes Internal when a received message, or an announcement on this host,
    /// contradicts an earlier message or announcement. After that, receive() returns this failure for every message,
    /// and next_decision() returns nothing.
    [[nodiscard]] const Status& status() const { return failure_; }

    /// Returns the next decision for this host, in order. No other decision comes between the calls of a batch. A
    /// decision of kind `wanted` contains a name or a call number.
    [[nodiscard]] std::optional<Decision> next_decision();

    /// A tensor that this host or its subtree has announced, but the root has not decided on yet. Stall reports show
    /// such tensors. `missing_hosts` are the hosts that have not announced the tensor. If a child has not announced it,
    /// `missing_hosts` contains all hosts of the child's subtree, because only the child knows which of them are
    /// missing.
    struct Pending {
        std::string name;  ///< "" if the operation has no name
        std::vector<std::uint32_t> missing_hosts;
    };
    [[nodiscard]] std::vector<Pending> pending() const;

private:
    /// A source of announcements: this node's own host, or a child with its subtree.
    struct Contributor {
        std::vector<std::uint32_t> hosts;  ///< ascending
        std::vector<RankRange> ranks;      ///< a result of united()
        std::uint64_t joined_hosts = 0;    ///< the number of these hosts on which all ranks have joined
        std::uint64_t settled_hosts = 0;
        [[nodiscard]] bool is_away() const { return joined_hosts == hosts.size(); }
    };
    /// A tensor that some contributor has announced, but the root has not decided on yet.
    struct Entry {
        /// The number of this entry, in the order in which entries were created. The first announcement of a tensor
        /// creates its entry.
        std::uint64_t order = 0;
        std::vector<std::uint32_t> who;  ///< contributors, in the order in which they announced the tensor
        bool by_name = false;            ///< whether some contributor announced the tensor by its name
        std::uint64_t id = 0;            ///< the tensor's id, if some contributor announced by id
        std::vector<Claim> claims;       ///< the claims of the contributors; empty while no contributor has made one
        std::vector<HostRows> rows;
        std::vector<RankRange> joined;     ///< a result of united(), like `uncounted`
        std::vector<RankRange> uncounted;  ///< each rank that has joined is in `joined` or in `uncounted`, not in both
        /// For each contributor, in the order of the contributors: Announcement::input. Empty if no announcement
        /// carried an input.
        std::vector<CarriedBytes> inputs;
        std::vector<std::uint32_t> asked;  ///< contributors that were asked to announce the tensor
    };
    /// A request to one contributor to announce a tensor. It is sent when all decisions at positions below `position`
    /// were sent.
    struct Wanted {
        std::uint64_t position = 0;
        Decision decision;
    };
    struct Child {
        std::uint64_t taken = 0;         ///< number of the child's last message
        std::uint64_t acknowledged = 0;  ///< number of the child's last acknowledged message
        std::uint64_t sent = 0;          ///< all decisions before this position were sent to the child
        std::uint64_t closed_hosts = 0;
        std::deque<Wanted> wanted;
    };
    /// What the next message to the parent will contain. The node sends it when the parent has acknowledged the
    /// previous message.
    struct Outbox {
        std::map<std::uint64_t, std::uint32_t> releases;  ///< number of hosts, by id
        std::deque<Announcement> announcements;
        std::deque<std::int32_t> joined;
        std::deque<std::int32_t> shutting_down;
        std::uint32_t settled_hosts = 0;
        std::uint32_t closed_hosts = 0;
    };

    static constexpr std::uint32_t kOwn = 0;  ///< the contributor number of this host; child i has the number i + 1

    void find_contributors(const std::vector<std::int32_t>& host_of);
    [[nodiscard]] std::optional<std::uint32_t> child_number(std::uint32_t host) const;

    [[nodiscard]] Status take(std::uint32_t from_host, const TreeMessage& message);
    [[nodiscard]] Status take(const UpMessage& message, std::uint32_t child);
    [[nodiscard]] Status take_content(const UpMessage& message, std::uint32_t child);
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

    /// Handles a decision of the root: updates this node's state, and keeps the decision until the children and this
    /// host have received it.
    [[nodiscard]] Status pass_on(Decision decision);
    [[nodiscard]] Status learn(const Decision& decision);
    void begin_closing();
    void draw_from_root();
    void drop_what_everybody_has();
    [[nodiscard]] std::optional<TreeMessage> message_up();
    [[nodiscard]] std::optional<TreeMessage> message_down(Child& child);

    // The functions of an offer (docs/design/0002-several-hosts.md, "Offers").
    [[nodiscard]] std::optional<Decision> next_offer(const Child& child) const;
    void note_acceptance(Child& child);
    [[nodiscard]] Status take_offer(Decision offer);
    [[nodiscard]] Status take_withdrawal(const WithdrawalMessage& message);
    [[nodiscard]] Status accept_offer();
    [[nodiscard]] bool may_get_offers() const { return !root_ && options_.shape.hosts == 2; }
    /// Handles an event of this host, or postpones it if an offer of this node was not answered yet.
    template <class Event>
    void take_own(Event event);

    Status note(Status status);

    Options options_;
    std::size_t most_bytes_ = 0;                            ///< maximum length of a message
    std::vector<Contributor> contributors_;                 ///< this host, then its children in order
    std::vector<std::uint32_t> contributor_of_;             ///< for each host: its contributor
    std::vector<std::uint32_t> ranks_on_;                   ///< for each host: the number of its ranks
    std::optional<TreeRoot> root_;                          ///< only on the root
    std::unordered_map<std::uint64_t, std::string> names_;  ///< by id
    std::unordered_map<std::string, Entry> pending_;
    std::unordered_map<std::uint64_t, Entry> pending_calls_;  ///< operations without names, by call number
    std::uint64_t entries_ = 0;                               ///< how many entries were created so far

    Outbox outbox_;
    std::uint64_t last_sent_up_ = 0;  ///< number of the last message to the parent
    std::uint64_t acknowledged_up_ = 0;

    std::deque<Decision> decisions_;    ///< decisions that this host or some child has not received yet
    std::uint64_t first_decision_ = 0;  ///< position of decisions_.front()
    /// All batches before this position have arrived completely. A batch that has arrived only in part begins at or
    /// after this position.
    std::uint64_t whole_ = 0;
    std::uint64_t handed_out_ = 0;
    bool within_batch_ = false;  ///< true if this host has received only a part of a batch
    std::deque<Wanted> wanted_;  ///< requests to this host
    std::vector<Child> children_;
    /// On the root: the offer that the child's next message answers. On its child: the offer that this node's next
    /// message answers, or the message in flight.
    std::optional<Decision> offer_;
    /// Events of the root's host since the root made the offer.
    std::vector<std::function<Status(TreeNode& node)>> postponed_;
    bool must_withdraw_ = false;  ///< on the root: whether the next message to the child withdraws the offer
    bool must_answer_ = false;  ///< on the child: whether it must answer a withdrawn offer, even with an empty message
    /// Only if the root may make offers to this node: the message in flight, if it can accept an offer.
    std::optional<UpMessage> sent_;
    bool closing_ = false;
    bool closed_ = false;
    Status failure_;
};

}  // namespace rueda::core
