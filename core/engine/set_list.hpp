// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The Rueda authors
#pragma once

#include <cstdint>
#include <list>
#include <memory>
#include <mutex>
#include <optional>
#include <span>
#include <vector>

#include "collectives/host/arena/arena.hpp"
#include "core/diagnostics/batch_watch.hpp"
#include "core/diagnostics/stall_monitor.hpp"
#include "core/diagnostics/stall_settings.hpp"
#include "core/process_set/process_set.hpp"

namespace rueda::core {

/// Returns the result that asks for the earlier next look.
[[nodiscard]] Turn busier(Turn a, Turn b);

/// The process sets of which a rank is a member. The engine drives and watches them. The world is the first one and is
/// never removed.
///
/// Threads: unless a function says otherwise, the thread that holds the rank's progress lock. Only this thread changes
/// the list, and it holds the mutex while it does. So it needs no mutex to read the list. Lock order: progress lock,
/// then the mutex, then a set's enqueue lock.
class SetList {
public:
    SetList(const StallSettings& settings, std::shared_ptr<ProcessSet> world,
            std::shared_ptr<collectives::Arena> arena);

private:
    struct Attended {
        std::shared_ptr<ProcessSet> set;
        std::shared_ptr<collectives::Arena> arena;
        std::unique_ptr<StallMonitor> stall_monitor;
        std::unique_ptr<BatchWatch> batch_watch;
        Turn last = Turn::idle;
    };

public:
    /// Allocates everything that the engine needs for one more set. Any thread.
    using Entry = std::list<Attended>;
    [[nodiscard]] Entry prepare(std::shared_ptr<ProcessSet> set, std::shared_ptr<collectives::Arena> arena) const;
    void add(Entry& entry) noexcept;
    void remove(const ProcessSet& set) noexcept;

    /// Calls ProcessSet::step() for each set. Returns the result of the busiest one.
    Turn step(bool urgent, bool asks_others);
    [[nodiscard]] bool has_work() const;
    [[nodiscard]] bool has_unread() const;
    [[nodiscard]] bool has_deferred() const;
    [[nodiscard]] bool has_to_poll() const;
    /// The earliest time until which a batch that the last step held back may still grow; empty if the last step held
    /// back no batch.
    [[nodiscard]] std::optional<std::int64_t> hold_until_ns() const;
    void leave_other_hosts(const Status& reason) noexcept;
    void fail_all(const Status& reason) noexcept;
    /// Closes the descriptors of the arenas of all sets except the world; the arenas stay mapped. Called at the end,
    /// when no thread changes the list any more.
    void close_descriptors();
    /// Called after close_descriptors(), when no thread will get the progress lock any more. It unmaps the arenas of
    /// all sets except the world, and the sets free what they can. Afterwards this object accesses no arena, not even
    /// the world's, which the caller unmaps.
    void release_memory();

    // The following functions may be called by any thread.
    /// Describes what the ranks of this host are doing.
    [[nodiscard]] StallReport account_of_world(std::int64_t now_ns) const;
    /// See StallMonitor::add_stacks_of_peers. Only the background thread.
    [[nodiscard]] bool add_stacks_of_peers(std::span<StallReport::Rank> ranks, std::int64_t now_ns) const;
    /// What an operation waits for, in whichever set it is pending; nothing if it is not a collective.
    [[nodiscard]] WaitReport account_of(const Completion& completion, std::int64_t now_ns) const;
    [[nodiscard]] ProcessSet& world() { return *world_; }
    /// Whether all members of every set have shut down.
    [[nodiscard]] bool are_closed() const;
    [[nodiscard]] bool anybody_has_to_poll() const;
    [[nodiscard]] bool anybody_has_unread() const;
    /// Whether all members of all sets have shut down, and no other host needs this rank any more.
    [[nodiscard]] bool have_left() const;
    /// Records for all sets except the world that have not ended: this rank waits in shutdown() for the set's other
    /// members.
    void begin_to_await_ends();
    /// An operation that makes no progress, as text; the background thread prints it.
    struct Finding {
        std::string text;
        bool shut_down = false;  ///< whether the job must end because of it
        // For the file of reports:
        std::shared_ptr<const StallReport> report = {};  ///< empty: there is nothing to write
        std::string process_set = {};                    ///< "" for the world
        std::string ends_job = {};                       ///< the reason, if the job ends because of it
    };
    [[nodiscard]] std::vector<Finding> look(std::int64_t now_ns);

private:
    template <class Has>
    [[nodiscard]] bool any(Has&& has) const;
    static void add(const ProcessSet& set, StallMonitor::Finding found, std::vector<Finding>& findings) noexcept;
    void look_at(Attended& attended, std::int64_t now_ns, std::vector<Finding>& findings);

    const StallSettings settings_;
    const std::shared_ptr<ProcessSet> world_;
    mutable std::mutex mutex_;
    std::list<Attended> sets_;
    bool released_ = false;  // protected by the mutex
};

}  // namespace rueda::core
