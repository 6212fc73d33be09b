// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The Rueda authors
#pragma once

#include <atomic>
#include <memory>
#include <mutex>
#include <string>
#include <thread>
#include <vector>

#include "base/status.hpp"
#include "base/system/logging.hpp"
#include "base/timeline/timeline_part.hpp"
#include "collectives/host/arena/arena.hpp"
#include "core/timeline/timeline_recording.hpp"

namespace rueda::core {

/// The timeline of a host (docs/design/0017-timeline.md). Every rank has this object, but only the lowest rank of the
/// host writes the timeline. The other ranks only know that a timeline is on.
///
/// Threads: any.
class HostTimeline {
public:
    /// `header` describes the host and its clock.
    HostTimeline(std::shared_ptr<collectives::Arena> arena, base::TimelineHeader header, base::Logger logger)
        : arena_(std::move(arena)), header_(std::move(header)), logger_(std::move(logger)) {}
    ~HostTimeline() { stop(); }
    HostTimeline(const HostTimeline&) = delete;
    HostTimeline& operator=(const HostTimeline&) = delete;

    /// Starts a timeline that is written to `path`. Hosts other than the first append ".host1" and so on to the path.
    /// If a timeline with the same path is already on, nothing changes. If a timeline with another path is on, that
    /// timeline ends.
    Status start(const std::string& path, bool marks_cycles, TimelineRecording::From from);
    /// Ends the timeline, if one is on. Waits two seconds at most for the file system. Logs what went wrong.
    void stop() noexcept;
    /// Ends the timeline. No other timeline can be started afterwards. Returns true if all threads of timelines have
    /// ended. Returns false if one of them still waits for a file system. The arena must then stay mapped, because the
    /// thread reads it after the wait.
    [[nodiscard]] bool end() noexcept;
    /// For each timeline of this job, merges the parts of all hosts into one file. Only the lowest rank of the first
    /// host calls this, after end(); the other hosts end their timelines at the same time. Waits ten seconds at most.
    /// If parts could not be merged, logs the reason and the command that merges them.
    void merge_hosts(bool was_aborted) noexcept;

    /// Whether this rank has started a timeline. The load is relaxed: a scope that begins or ends at the same time as
    /// the timeline may be left out.
    [[nodiscard]] bool is_on() const { return is_on_.load(std::memory_order_relaxed); }

private:
    void stop(bool for_good) noexcept;
    void stop_recording();
    void note_written();
    void merge_written();
    void say_unmerged(const std::vector<std::string>& paths, const std::string& reason);
    void set_on(bool is_on);

    std::shared_ptr<collectives::Arena> arena_;
    base::TimelineHeader header_;
    base::Logger logger_;
    std::atomic<bool> is_on_{false};

    std::mutex mutex_;  // A thread that holds this mutex may take the lock of a recording, but no other lock.
    std::string path_;  // mutex_ protects this field and the fields below
    // the absolute path of `path_`, because the program may change its working folder before the merge
    std::string absolute_path_;
    std::shared_ptr<TimelineRecording> recording_;  // null: this rank records nothing
    std::thread thread_;
    std::vector<std::string> written_;  // timelines that have ended; only in a job on several hosts
    bool has_ended_ = false;
    // Recordings that this object has given up. Only their own threads keep them alive.
    std::vector<std::weak_ptr<TimelineRecording>> left_behind_;
};

}  // namespace rueda::core
