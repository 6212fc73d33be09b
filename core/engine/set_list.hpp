// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The Rueda authors
#pragma once

#include <cstdint>
#include <list>
#include <memory>
#include <mutex>
#include <optional>
#include <vector>

#include "collectives/host/arena/arena.hpp"
#include "core/diagnostics/batch_watch.hpp"
#include "core/diagnostics/stall_monitor.hpp"
#include "core/diagnostics/stall_settings.hpp"
#include "core/process_set/process_set.hpp"

namespace rueda::core {

/// What asks for the next look the soonest.
[[nodiscard]] Turn busier(Turn a, Turn b);

/// The process sets that a rank is a member of, as its engine steps and watches them. The world is the first and stays.
///
/// Threads: unless said otherwise, whoever holds the rank's progress lock. He alone changes the list, under the mutex
/// as well, so he reads it without. Lock order: progress lock, then the mutex, then a set's enqueue lock.
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
    /// Everything about a further set that needs memory. Any thread.
    using Entry = std::list<Attended>;
    [[nodiscard]] Entry prepare(std::shared_ptr<ProcessSet> set, std::shared_ptr<collectives::Arena> arena) const;
    void add(Entry& entry) noexcept;
    void remove(const ProcessSet& set) noexcept;

    /// Of each set what ProcessSet::step() does; returns what the busiest of them found.
    Turn step(bool urgent, bool asks_others);
    [[nodiscard]] bool has_work() const;
    [[nodiscard]] bool has_unread() const;
    [[nodiscard]] bool has_deferred() const;
    [[nodiscard]] bool has_to_poll() const;
    /// Until when the first of the open batches that were held back in the last step may grow; none was.
    [[nodiscard]] std::optional<std::int64_t> hold_until_ns() const;
    void leave_other_hosts(const Status& reason) noexcept;
    void fail_all(const Status& reason) noexcept;
    /// Of the further sets' arenas, which stay mapped. At the end, when nobody changes the list any more.
    void close_descriptors();
    /// And then, when nobody will have the progress lock any more, those arenas are unmapped, and the sets give back
    /// what they can. After it nobody looks at an arena from here, that of the world included, which the caller unmaps.
    void release_memory();

    // By any thread.
    /// What the ranks of this host are doing.
    [[nodiscard]] StallReport account_of_world(std::int64_t now_ns) const;
    /// What an operation waits for in whatever sets it is pending; nothing, where it is no collective that is pending.
    [[nodiscard]] WaitReport account_of(const Completion& completion, std::int64_t now_ns) const;
    [[nodiscard]] ProcessSet& world() { return *world_; }
    /// All members of all sets have shut down.
    [[nodiscard]] bool are_closed() const;
    [[nodiscard]] bool anybody_has_to_poll() const;
    [[nodiscard]] bool anybody_has_unread() const;
    /// And no other host needs this rank any more.
    [[nodiscard]] bool have_left() const;
    /// Of those that have not left, the world aside: this rank waits in shutdown() for their other members.
    void begin_to_await_ends();
    /// What stands still, to be said by the background thread.
    struct Finding {
        std::string text;
        bool shut_down = false;  ///< it is the reason to end the job
    };
    [[nodiscard]] std::vector<Finding> look(std::int64_t now_ns);

private:
    template <class Has>
    [[nodiscard]] bool any(Has&& has) const;
    [[nodiscard]] static Finding titled(const std::string& title, std::string text, bool shut_down) noexcept;
    void look_at(Attended& attended, std::int64_t now_ns, std::vector<Finding>& findings);

    const StallSettings settings_;
    const std::shared_ptr<ProcessSet> world_;
    mutable std::mutex mutex_;
    std::list<Attended> sets_;
    bool released_ = false;  // under the mutex
};

}  // namespace rueda::core
