// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The Rueda authors
#pragma once

#include <atomic>
#include <cstdint>
#include <deque>
#include <memory>
#include <mutex>
#include <optional>
#include <span>
#include <string>
#include <unordered_map>
#include <vector>

#include "base/settings/config.hpp"
#include "collectives/local_group.hpp"
#include "collectives/transport.hpp"
#include "core/diagnostics/stall_inquiry.hpp"
#include "core/diagnostics/stall_monitor.hpp"
#include "core/negotiation/call_sites.hpp"
#include "core/negotiation/registrar.hpp"
#include "core/negotiation/tree_node.hpp"

namespace rueda::core {

/// Connects the registrar of a host (the role that assigns slots) with the leaders of the other hosts. Reports what all
/// ranks of this host have announced, and appends the decisions of the tree's root to the host's log
/// (docs/design/0002-several-hosts.md).
///
/// Threads: only the holder of the progress lock on the host's leading rank. While this thread uses the registrar, it
/// also holds the rank's enqueue lock (the lock for announcing operations).
class Leader final : private Superior {
public:
    using Atomics = base::StdAtomics;

    Leader(const base::Config& config, const collectives::LocalGroup& group, std::shared_ptr<collectives::Arena> arena,
           const NegotiationMemory<Atomics>& memory, Registrar<Atomics>& registrar, std::mutex& enqueue_mutex,
           collectives::Transport& transport);
    ~Leader() override;
    Leader(const Leader&) = delete;
    Leader& operator=(const Leader&) = delete;

    /// Whether ranks of this host have posted anything since the last turn. Messages of other hosts do not count here:
    /// the leader polls for them, or the transport wakes this rank (Transport::wakes()).
    [[nodiscard]] bool has_work() const { return registrar_.has_requests() || has_to_say_joined(); }

    struct Moved {
        bool anything = false;
        bool log = false;  ///< whether ranks that wait for a log entry must be woken
        /// whether requests were handled; members that have joined must then look for new announcements
        bool served = false;
    };
    /// Does all work that is possible now. A failure must end the job.
    Result<Moved> turn();

    /// Returns true if no host needs this leader any more: all ranks of the job have shut down, and the hosts below
    /// this host in the tree know that all have shut down. Any thread.
    [[nodiscard]] bool has_left() const { return left_.load(std::memory_order_acquire); }

    /// Sends the reason of the job's end to the neighbouring hosts, and waits only briefly. Afterwards this leader does
    /// not use the transport.
    void end(const Status& reason) noexcept;

    /// Cancels the posted receives. Call this for a set that ends before the job, after has_left() has returned true. A
    /// failure ends the job.
    Status take_back_receives();

    /// See StallMonitor::report_messages().
    void report_messages() { stall_monitor_->report_messages(); }
    /// On the root: returns a finding about operations that make no progress between the hosts. The background thread
    /// reports this finding. Any thread.
    [[nodiscard]] std::optional<StallMonitor::Finding> take_finding();

private:
    /// Another leader with which this leader exchanges messages.
    struct Neighbour {
        std::uint32_t host = 0;
        int rank = 0;
        std::vector<std::byte> room;
        collectives::Transport::Ticket receiving = 0;
        std::optional<int> deputy;  // the second rank of `host`
        std::vector<std::byte> deputy_room;
        collectives::Transport::Ticket hearing_deputy = 0;
        std::vector<std::byte> message;
        std::optional<collectives::Transport::Ticket> sending;
        std::int64_t heard_ns = 0;
        std::int64_t sent_ns = 0;
        std::int64_t lost_ns = 0;  // when this leader found that the connection has ended; 0 if it has not
    };
    /// An operation that all ranks of this host have announced, and on which the root has not decided.
    struct Awaited {
        bool changed = false;
        std::string name;        // "" for an operation without a name
        std::uint64_t call = 0;  // the number that stall reports show for an operation without a name
        std::int64_t since_ns = 0;
        // True if all ranks of this host have joined. Only the root then knows the operation's metadata.
        bool nobody_here = false;
        std::vector<SiteOfRanks> sites = {};  // the source lines of this host's calls
    };
    // The functions of Superior, which the registrar calls under the enqueue lock.
    Status complete(std::uint32_t slot, std::uint64_t generation, bool changed) override;
    void retired(std::uint32_t slot) override;
    void shutting_down(std::uint32_t member) override;
    void closed() override;
    void settled() override;

    void keep_memory() noexcept;
    Status start();
    Status serve(Moved& moved);
    [[nodiscard]] Result<std::vector<Claim>> claims_of(std::uint32_t slot, std::uint64_t generation) const;
    void find_joined(std::uint32_t slot, std::uint64_t generation, Announcement& announcement) const;
    [[nodiscard]] CarriedBytes input_of(std::uint32_t slot, std::uint64_t generation, const Metadata& metadata) const;
    [[nodiscard]] HostRows rows_of(std::uint32_t slot, std::uint64_t generation) const;
    [[nodiscard]] std::int32_t rank_of(std::uint32_t member) const { return group_.members[member]; }

    // The following functions handle joins (docs/design/0005-join.md).
    [[nodiscard]] bool has_to_say_joined() const {
        // The load of `last_joined` is seq_cst. A member stores `last_joined` in set_joined() and then wakes the leader
        // if the leader sleeps. Either the load sees the member's store, or the member sees that the leader sleeps.
        return !said_joined_ && memory_.header().last_joined.load(std::memory_order_seq_cst) != 0;
    }
    void say_joined();
    [[nodiscard]] bool is_seen_first(std::uint32_t slot) const;
    Status learn_meaning(const Decision& decision, std::uint32_t slot, bool& changed);
    void ask_for(const Decision& wanted);

    Status receive(Neighbour& neighbour, std::int64_t now, Moved& moved);
    Status send(Neighbour& neighbour, std::int64_t now, Moved& moved);
    Status check_life(const Neighbour& neighbour, std::int64_t now) const;
    [[nodiscard]] std::string describe(std::uint32_t host) const;
    [[nodiscard]] Result<TreeMessage> parse(std::span<const std::byte> room, std::size_t bytes) const;

    Status inquire(std::int64_t now, Moved& moved);
    Status hear_deputy(const Neighbour& neighbour);
    Status lose(Neighbour& neighbour, const Status& failure, std::int64_t now);
    [[nodiscard]] double longest_wait(std::int64_t now) const;
    [[nodiscard]] HostAccount account(std::int64_t now) const;
    [[nodiscard]] std::optional<std::vector<StallReport::Rank>> stacks_of(std::span<const std::int32_t> ranks,
                                                                          std::int64_t now);

    Status pass_on(std::int64_t now, Moved& moved);
    Result<bool> decide(Moved& moved);
    Status apply(const Decision& decision, Moved& moved);
    Status apply_call(const Decision& decision, Moved& moved);
    Status apply_refusal(const Decision& decision, EntryKind kind, ErrorCode code);
    struct Called {
        std::uint32_t slot = kNoSlot;
        bool changed = false;
        bool nobody_here = false;
    };
    [[nodiscard]] Result<Called> take_awaited(const Decision& decision);
    [[nodiscard]] bool attachment_is_free() const;
    std::uint32_t attach(std::span<const std::byte> bytes);
    std::uint32_t attach_result(std::span<const std::byte> bytes);
    void attached_until(std::uint32_t attachment, std::uint64_t position);
    void count_executed();

    const collectives::LocalGroup& group_;
    NegotiationMemory<Atomics> memory_;
    Registrar<Atomics>& registrar_;
    std::mutex& enqueue_mutex_;
    collectives::Transport& transport_;
    TreeNode node_;
    // Announcements carry inputs of at most this size. Larger tensors may be combined in another order than
    // combine_carried() uses, and the bits of a result must not depend on the way of its data.
    std::uint64_t most_carried_bytes_;
    std::int64_t timeout_ns_;
    std::int64_t heartbeat_ns_;
    // How long the end of the job is delayed, at most, until the background thread has taken the report.
    std::int64_t report_limit_ns_;
    std::int64_t last_turn_ns_ = 0;

    // A shared_ptr, so that the neighbours' buffers can stay in memory after this object's end if MPI still has posted
    // receives.
    std::shared_ptr<std::vector<Neighbour>> neighbours_;
    bool started_ = false;
    bool ended_ = false;
    bool closed_ = false;
    bool said_joined_ = false;
    std::atomic<bool> left_{false};  // turn() and end() store it with release; has_left() loads it

    std::vector<std::uint64_t> id_of_slot_;  // for each slot, the tensor's id at the root; 0 if the tensor has none
    std::unordered_map<std::uint64_t, std::uint32_t> slot_of_id_;
    // slots that were announced by name and wait for the root's decision
    std::unordered_map<std::string, std::uint32_t> slot_by_name_;
    std::unordered_map<std::uint32_t, Awaited> awaited_;  // for each slot: its operation
    /// the calls of the root's current batch, until the batch is complete
    std::vector<Registrar<Atomics>::Call> batch_;
    // For each attachment, the log position up to which all members must have read before the attachment can be written
    // again.
    std::vector<std::uint64_t> attachments_;
    std::uint64_t next_attachment_ = 0;
    std::uint64_t executed_ = 0;  // the number of executed batches; only on the root
    std::int64_t next_inquiry_ns_ = 0;
    std::unique_ptr<StallMonitor> stall_monitor_;
    std::unique_ptr<StallInquiry> inquiry_;
    std::mutex finding_mutex_;
    std::optional<StallMonitor::Finding> finding_;
    // The error that ends the job because operations make no progress. Only for the holder of the progress lock.
    std::optional<Status> ends_job_for_;
    std::int64_t ends_job_ns_ = 0;
    // the log position after each batch that is not executed yet; only on the root
    std::deque<std::uint64_t> batch_ends_;
};

}  // namespace rueda::core
