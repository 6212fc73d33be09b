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

/// Between the registrar of a host and the leaders of the other hosts: passes on what is complete here, and appends
/// what the root decides to the host's log (docs/design/0002-several-hosts.md).
///
/// Threads: whoever holds the progress lock of the host's leader. Takes the rank's enqueue lock inside, for the
/// registrar.
class Leader final : private Superior {
public:
    using Atomics = base::StdAtomics;

    Leader(const base::Config& config, const collectives::LocalGroup& group, std::shared_ptr<collectives::Arena> arena,
           const NegotiationMemory<Atomics>& memory, Registrar<Atomics>& registrar, std::mutex& enqueue_mutex,
           collectives::Transport& transport);
    ~Leader() override;
    Leader(const Leader&) = delete;
    Leader& operator=(const Leader&) = delete;

    /// Something was posted on this host since the last turn. What comes from other hosts nobody tells.
    [[nodiscard]] bool has_work() const { return registrar_.has_requests() || has_to_say_joined(); }

    struct Moved {
        bool anything = false;
        bool log = false;     ///< who waits for the log has to be woken
        bool served = false;  ///< something that was posted: members that have joined look what it is
    };
    /// Does what can be done now. A failure ends the job.
    Result<Moved> turn();

    /// All ranks of the job have shut down, and the hosts below know it: nobody needs this leader any more.
    /// Any thread.
    [[nodiscard]] bool has_left() const { return left_.load(std::memory_order_acquire); }

    /// Tells the neighbours that the job has ended, and why, if it can be done in a moment; then leaves the transport.
    void end(const Status& reason) noexcept;

    /// After has_left(), of a set that ends before the job: takes back what it still receives. A failure ends the job.
    Status take_back_receives();

    /// What stands still among the hosts, as the root finds it: to be said by the background thread. Any thread.
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
        std::uint64_t call = 0;  // of one without, as stall reports count them
        std::int64_t since_ns = 0;
        bool nobody_here = false;             // all ranks of this host have joined: only the root knows what it is
        std::vector<SiteOfRanks> sites = {};  // where this host's ranks have called it
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
    std::int64_t report_limit_ns_;  // the end of the job waits so long for its report to be taken
    std::int64_t last_turn_ns_ = 0;

    std::shared_ptr<std::vector<Neighbour>> neighbours_;  // kept for MPI where receives stay posted
    bool started_ = false;
    bool ended_ = false;
    bool closed_ = false;
    bool said_joined_ = false;
    std::atomic<bool> left_{false};  // partner of turn()'s and end()'s store: has_left()

    std::vector<std::uint64_t> id_of_slot_;  // 0: none
    std::unordered_map<std::uint64_t, std::uint32_t> slot_of_id_;
    std::unordered_map<std::string, std::uint32_t> slot_by_name_;  // announced by name, its decision awaited
    std::unordered_map<std::uint32_t, Awaited> awaited_;           // by slot
    std::vector<Registrar<Atomics>::Call> batch_;                  // decided on, its end is still to come
    std::vector<std::uint64_t> attachments_;  // in use until all members of the host have read up to here
    std::uint64_t next_attachment_ = 0;
    std::uint64_t executed_ = 0;  // root: batches, since the beginning
    std::int64_t next_inquiry_ns_ = 0;
    std::unique_ptr<StallMonitor> stall_monitor_;
    std::unique_ptr<StallInquiry> inquiry_;
    std::mutex finding_mutex_;
    std::optional<StallMonitor::Finding> finding_;
    // Because of what stands still; of whoever holds the progress lock.
    std::optional<Status> ends_job_for_;
    std::int64_t ends_job_ns_ = 0;
    std::deque<std::uint64_t> batch_ends_;  // root: log positions of batches that are not executed
};

}  // namespace rueda::core
