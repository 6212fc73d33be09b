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
#include "core/diagnostics/launch_watch.hpp"
#include "core/diagnostics/stall_monitor.hpp"
#include "core/diagnostics/stall_settings.hpp"
#include "core/diagnostics/turn_questions.hpp"
#include "core/process_set/process_set.hpp"

namespace rueda::core {

/// Compares two results of turns. Returns the result after which the engine must run the next turn sooner.
[[nodiscard]] Turn busier(Turn a, Turn b);

/// The process sets that contain this rank. The engine drives and watches them. The world is always the first one.
///
/// Threads: the holder of the rank's progress lock, unless a function says otherwise. Only the holder changes the list,
/// and it locks this object's mutex while it does so. The holder reads the list without the mutex; other threads must
/// lock the mutex to read the list. Lock order: progress lock, then the mutex, then a set's enqueue lock
/// (Announcer::enqueue_mutex()).
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
        std::unique_ptr<TurnQuestions> turn_questions;
        std::unique_ptr<LaunchWatch> launch_watch;
        Turn last = Turn::idle;
        /// The chunks that the last call of note_chunks() stored. They are protected by the mutex, because the thread
        /// that drives progress calls note_chunks(), and another thread may read them.
        std::optional<ProcessSet::ChunksInProgress> chunks = {};
    };

public:
    /// Allocates everything that the engine needs for one more set. Any thread.
    using Entry = std::list<Attended>;
    [[nodiscard]] Entry prepare(std::shared_ptr<ProcessSet> set, std::shared_ptr<collectives::Arena> arena) const;
    void add(Entry& entry) noexcept;
    void remove(const ProcessSet& set) noexcept;

    /// Calls ProcessSet::step() for each set. Returns the result that requires the earliest next turn; see busier().
    Turn step(bool urgent, bool asks_others);
    [[nodiscard]] bool has_work() const;
    [[nodiscard]] bool has_unread() const;
    [[nodiscard]] bool has_deferred() const;
    [[nodiscard]] bool has_to_poll() const;
    /// The earliest time at which an open batch must be closed. A batch is open as long as more operations may be added
    /// to it. Empty if the last step left no batch open.
    [[nodiscard]] std::optional<std::int64_t> hold_until_ns() const;
    /// Stores, for stall reports, which chunks the batches in progress have.
    void note_chunks();
    void take_decided_errors() noexcept;
    void leave_other_hosts(const Status& reason) noexcept;
    void fail_all(const Status& reason) noexcept;
    /// Closes the file descriptors of the arenas of all sets except the world; the arenas stay mapped. Call this at the
    /// end, when no thread changes the list any more.
    void close_descriptors();
    /// Unmaps the arenas of all sets except the world, and lets the sets free their memory. Call this after
    /// close_descriptors(), when no thread can get the progress lock any more. Afterwards this object accesses no
    /// arena; the caller unmaps the world's arena.
    void release_memory();

    // Any thread may call the following functions, except where a comment says otherwise.

    /// Describes what the ranks of this host are doing, for a stall report.
    [[nodiscard]] StallReport account_of_world(std::int64_t now_ns) const;
    /// Whether this rank prints the stall reports for the set of all ranks.
    [[nodiscard]] bool reports_stalls_of_world(std::int64_t now_ns) const;
    /// Returns what the operation of `completion` waits for, in any set. Returns nothing for a send or a receive.
    [[nodiscard]] WaitReport account_of(const Completion& completion, std::int64_t now_ns) const;
    [[nodiscard]] ProcessSet& world() { return *world_; }
    /// Whether all members of every set have shut down.
    [[nodiscard]] bool are_closed() const;
    [[nodiscard]] bool anybody_has_to_poll() const;
    [[nodiscard]] bool anybody_has_unread() const;
    /// Whether all members of all sets have shut down and no other host needs this rank.
    [[nodiscard]] bool have_left() const;
    /// Records that this rank waits in shutdown() for the other members of each set that has not ended. The world is
    /// left out.
    void begin_to_await_ends();
    /// A text about an operation that makes no progress. The background thread prints it.
    struct Finding {
        std::string text;
        bool shut_down = false;  ///< whether the job must end because of the finding
        // The following fields are for the file of stall reports.
        std::shared_ptr<const StallReport> report = {};  ///< null if nothing is written to the file
        std::string process_set = {};                    ///< "" for the world
        std::string ends_job = {};                       ///< the reason if the job must end; otherwise ""
        std::string record_because = {};                 ///< see StallMonitor::Finding
    };
    [[nodiscard]] std::vector<Finding> look(std::int64_t now_ns);

private:
    template <class Has>
    [[nodiscard]] bool any(Has&& has) const;
    static void add(const ProcessSet& set, StallMonitor::Finding found, std::vector<Finding>& findings) noexcept;
    [[nodiscard]] static BatchWatch::Source source_for(Attended& attended, std::int64_t now_ns);
    static void look_at(Attended& attended, std::int64_t now_ns, std::vector<Finding>& findings);

    const StallSettings settings_;
    const std::shared_ptr<ProcessSet> world_;
    mutable std::mutex mutex_;
    std::list<Attended> sets_;
    bool released_ = false;  // protected by the mutex
};

}  // namespace rueda::core
