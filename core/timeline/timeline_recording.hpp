// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The Rueda authors
#pragma once

#include <chrono>
#include <condition_variable>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <mutex>
#include <string>
#include <unordered_map>
#include <vector>

#include "base/recorder/recorder_reader.hpp"
#include "base/status.hpp"
#include "base/timeline/operation_groups.hpp"
#include "base/timeline/timeline_part.hpp"
#include "base/timeline/trace_events.hpp"
#include "collectives/host/arena/arena.hpp"
#include "core/timeline/ring_drain.hpp"
#include "core/timeline/timeline_file.hpp"

namespace rueda::core {

/// Records one timeline: reads the flight recorders of all ranks of the host and writes their events to a file.
///
/// Threads: begin() before the thread starts. run() is the thread. stop(), wait_until_done(), result() and end(): the
/// owner, who may give up while the thread waits for the file system. The thread holds a share of this object, so that
/// nothing that it uses goes away.
class TimelineRecording {
public:
    /// Where the operations of a timeline begin.
    enum class From : std::uint8_t {
        beginning,  ///< with the first operation of the job
        now,
    };

    /// How the times of this host become times of the job: see HostClock.
    TimelineRecording(std::shared_ptr<collectives::Arena> arena, base::TimelineHeader header)
        : arena_(std::move(arena)), header_(std::move(header)), events_(header_.marks_cycles) {}

    /// Opens the file and writes its first events.
    [[nodiscard]] Status begin(const std::string& path, From from);
    /// Reads and writes until stop(), and then writes the rest.
    void run() noexcept;

    /// Asks the thread to end.
    void stop();
    /// Returns false if it does not end in this time.
    [[nodiscard]] bool wait_until_done(std::chrono::milliseconds patience);
    /// These functions return what went wrong, and what was written. Call them only when the recording is done.
    [[nodiscard]] const Status& result() const { return result_; }
    [[nodiscard]] const base::TimelineEnd& end() const { return end_; }

private:
    using Nanoseconds = std::chrono::nanoseconds;

    Status record();
    /// One look at all rings. Returns the largest part of a ring that was new.
    Result<double> round();
    Status finish(std::int64_t stopped_ns);
    void await_last_ends();
    [[nodiscard]] std::vector<base::TimelineOperation> open_operations() const;
    Status take(std::vector<base::TimelineOperation>& ended);
    Status write_ready(std::vector<base::OperationGroup>& ready);
    Status write_text();
    Status note_losses();
    [[nodiscard]] std::size_t members_of(std::int32_t set_id);
    /// All ranks' times are converted by the clock of the lowest rank, so that they can be compared.
    [[nodiscard]] base::RecorderReader reader_of(std::size_t member, base::ClockPair now) const {
        return {*arena_->recorder(static_cast<std::uint32_t>(member)), *arena_->recorder(0), now};
    }
    [[nodiscard]] std::int64_t now_ns() const;
    /// Waits until stop() or for this time. Returns whether stop() was called. stop() notifies.
    bool sleep(Nanoseconds time);

    std::shared_ptr<collectives::Arena> arena_;
    base::TimelineHeader header_;
    TimelineFile file_;
    base::TraceEvents events_;
    static constexpr std::size_t kMostHeld = 16384;
    base::OperationGroups groups_{kMostHeld};
    std::vector<RingDrain> drains_;                          // by member of the host
    std::unordered_map<std::int32_t, std::size_t> members_;  // of each set, on this host
    std::string text_;                                       // not written yet

    std::mutex mutex_;
    std::condition_variable changed_;  // stop() and the end of run() notify
    bool stopping_ = false;            // under mutex_
    bool done_ = false;                // under mutex_
    Status result_;                    // written before done_
    base::TimelineEnd end_;            // written before done_
};

}  // namespace rueda::core
