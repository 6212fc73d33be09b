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
/// host records; the others only know that a timeline is on.
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

    /// Starts to record to this file. If a timeline is on with this path, nothing changes. If one is on with another
    /// path, it ends. Hosts after the first one append ".host1" and so on to the path.
    Status start(const std::string& path, bool marks_cycles, TimelineRecording::From from);
    /// Ends the timeline, if there is one. Waits two seconds at most for the file system. Logs what went wrong.
    void stop() noexcept;
    /// The same, and no timeline can be started any more. Returns whether no thread of a timeline is left behind. Such
    /// a thread, which waits for a file system, reads the arena when it goes on, so the arena must then stay mapped.
    [[nodiscard]] bool end() noexcept;
    /// Makes one file of the parts of all hosts, for each timeline of this job. Only the lowest rank of the first host
    /// does this, after end(); the other hosts end their timelines at the same time. Waits ten seconds at most. If a
    /// timeline stays in parts, this logs why, and the command that merges them.
    void merge_hosts(bool was_aborted) noexcept;

    /// Whether this rank has started a timeline. Relaxed: a scope that begins or ends at the same time may be left out.
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

    std::mutex mutex_;  // no other lock is taken while this one is held, except a recording's
    std::string path_;  // under mutex_, as the rest
    std::shared_ptr<TimelineRecording> recording_;  // null: this rank records nothing
    std::thread thread_;
    std::vector<std::string> written_;  // the timelines of a job on several hosts that have ended
    bool has_ended_ = false;
    std::vector<std::weak_ptr<TimelineRecording>> left_behind_;  // only a recording's thread keeps it alive
};

}  // namespace rueda::core
