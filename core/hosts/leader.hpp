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

/// Connects the registrar of a host with the leaders of the other hosts. It reports what all ranks of this host have
/// announced, and appends the root's decisions to the host's log (docs/design/0002-several-hosts.md).
///
/// Threads: the thread that holds the progress lock of the rank that leads the host. Takes the rank's enqueue lock
/// inside, for the registrar.
class Leader final : private Superior {
public:
    using Atomics = base::StdAtomics;

    Leader(const base::Config& config, const collectives::LocalGroup& group, std::shared_ptr<collectives::Arena> arena,
           const NegotiationMemory<Atomics>& memory, Registrar<Atomics>& registrar, std::mutex& enqueue_mutex,
           collectives::Transport& transport);
    ~Leader() override;
    Leader(const Leader&) = delete;
    Leader& operator=(const Leader&) = delete;

    /// Whether something was posted on this host since the last turn. Nothing reports messages of other hosts, so the
    /// leader has to poll for them.
    [[nodiscard]] bool has_work() const { return registrar_.has_requests() || has_to_say_joined(); }

    struct Moved {
        bool anything = false;
        bool log = false;     ///< ranks that wait for a log entry have to be woken
        bool served = false;  ///< something was posted, so members that have joined must look at it
    };
    /// Does what can be done now. A failure ends the job.
    Result<Moved> turn();

    /// Whether all ranks of the job have shut down and the hosts below in the tree know it, so that no host needs this
    /// leader any more. Any thread.
    [[nodiscard]] bool has_left() const { return left_.load(std::memory_order_acquire); }

    /// Tells the neighbouring hosts that the job has ended, and why, if this takes only a moment. Then this leader
    /// stops using the transport.
    void end(const Status& reason) noexcept;

    /// Called after has_left() for a set that ends before the job does: takes back the posted receives. A failure ends
    /// the job.
    Status take_back_receives();

    /// The operations that make no progress between the hosts, as the root found them. The background thread reports
    /// them. Any thread.
    [[nodiscard]] std::optional<StallMonitor::Finding> take_finding();

private:
    /// Another leader that this one speaks to.
    struct Neighbour {
        std::uint32_t host = 0;
        int rank = 0;
        std::vector<std::byte> room;
        collectives::Transport::Ticket receiving = 0;
        std::optional<int> deputy;  // its second rank
        std::vector<std::byte> deputy_room;
        collectives::Transport::Ticket hearing_deputy = 0;
        std::vector<std::byte> message;
        std::optional<collectives::Transport::Ticket> sending;
        std::int64_t heard_ns = 0;
        std::int64_t sent_ns = 0;
    };
    /// A slot whose decision is awaited.
    struct Awaited {
        bool changed = false;
        std::string name;        // "" without
        std::uint64_t call = 0;  // the number of an operation without a name, as stall reports count it
        std::int64_t since_ns = 0;
        bool nobody_here = false;             // all ranks of this host have joined, so only the root knows the metadata
        std::vector<SiteOfRanks> sites = {};  // where the calls of this host's ranks are in the source code
    };
    // Superior, under the enqueue lock.
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
    [[nodiscard]] HostRows rows_of(std::uint32_t slot, std::uint64_t generation) const;
    [[nodiscard]] std::int32_t rank_of(std::uint32_t member) const { return group_.members[member]; }

    // Joins (docs/design/0005-join.md).
    [[nodiscard]] bool has_to_say_joined() const {
        // Partner: set_joined(), after which this leader is woken.
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

    Status inquire(std::int64_t now);
    Status hear_deputy(const Neighbour& neighbour);
    [[nodiscard]] double longest_wait(std::int64_t now) const;
    [[nodiscard]] HostAccount account(std::int64_t now) const;
    [[nodiscard]] std::optional<std::vector<StallReport::Rank>> stacks_of(std::span<const std::int32_t> ranks,
                                                                          std::int64_t now);

    Status decide(Moved& moved);
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
    void attached_until(std::uint32_t attachment, std::uint64_t position);
    void count_executed();

    const collectives::LocalGroup& group_;
    NegotiationMemory<Atomics> memory_;
    Registrar<Atomics>& registrar_;
    std::mutex& enqueue_mutex_;
    collectives::Transport& transport_;
    TreeNode node_;
    std::int64_t timeout_ns_;
    std::int64_t heartbeat_ns_;
    std::int64_t report_limit_ns_;  // how long the end of the job waits until its report is taken
    std::int64_t last_turn_ns_ = 0;

    std::shared_ptr<std::vector<Neighbour>> neighbours_;  // kept allocated for MPI if receives stay posted
    bool started_ = false;
    bool ended_ = false;
    bool closed_ = false;
    bool said_joined_ = false;
    std::atomic<bool> left_{false};  // partner of the stores in turn() and end(): has_left()

    std::vector<std::uint64_t> id_of_slot_;  // 0: none
    std::unordered_map<std::uint64_t, std::uint32_t> slot_of_id_;
    std::unordered_map<std::string, std::uint32_t> slot_by_name_;  // announced by name; the root's decision is awaited
    std::unordered_map<std::uint32_t, Awaited> awaited_;           // by slot
    std::vector<Registrar<Atomics>::Call> batch_;                  // the root has decided; the operation has not ended
                                                                   // yet
    std::vector<std::uint64_t> attachments_;  // in use until all members of the host have read up to here
    std::uint64_t next_attachment_ = 0;
    std::uint64_t executed_ = 0;  // root: batches, since the beginning
    std::int64_t next_inquiry_ns_ = 0;
    std::unique_ptr<StallMonitor> stall_monitor_;
    std::unique_ptr<StallInquiry> inquiry_;
    std::mutex finding_mutex_;
    std::optional<StallMonitor::Finding> finding_;
    // Ends the job because of operations that make no progress. Called by the thread that holds the progress lock.
    std::optional<Status> ends_job_for_;
    std::int64_t ends_job_ns_ = 0;
    std::deque<std::uint64_t> batch_ends_;  // root: log positions of batches that are not executed
};

}  // namespace rueda::core
