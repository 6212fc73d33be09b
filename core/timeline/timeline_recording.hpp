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
/// Threads: the owner calls begin(), and then starts a thread that executes run(). The owner also calls stop(),
/// wait_until_done(), result() and end(). The owner may give up while the thread waits for the file system. The thread
/// therefore holds a shared pointer to this object, which keeps everything that the thread uses.
class TimelineRecording {
public:
    /// The first operation that a timeline contains.
    enum class From : std::uint8_t {
        beginning,  ///< the first operation of the job
        now,
    };

    /// `header` describes the host. It also says how to convert the times of this host to times of the job (HostClock).
    TimelineRecording(std::shared_ptr<collectives::Arena> arena, base::TimelineHeader header)
        : arena_(std::move(arena)), header_(std::move(header)), events_(header_.marks_cycles) {}

    /// Opens the file and writes its first events.
    [[nodiscard]] Status begin(const std::string& path, From from);
    /// Reads the flight recorders and writes the file until stop() is called. Then writes the remaining events.
    void run() noexcept;

    /// Asks the thread to end.
    void stop();
    /// Waits until the thread is done, for `patience` at most. Returns false if the thread is not done by then.
    [[nodiscard]] bool wait_until_done(std::chrono::milliseconds patience);
    /// result() returns the failure of the recording, or success. end() describes what was written. Call these two
    /// functions only when the recording is done.
    [[nodiscard]] const Status& result() const { return result_; }
    [[nodiscard]] const base::TimelineEnd& end() const { return end_; }

private:
    using Nanoseconds = std::chrono::nanoseconds;

    Status record();
    /// Reads the rings of all ranks once. In each ring, a share of the records is new (from 0 to 1). Returns the
    /// largest of these shares.
    Result<double> round();
    Status finish(std::int64_t stopped_ns);
    void await_last_ends();
    [[nodiscard]] std::vector<base::TimelineOperation> open_operations() const;
    Status take(std::vector<base::TimelineOperation>& ended);
    Status write_ready(std::vector<base::OperationGroup>& ready);
    Status write_text();
    Status note_losses();
    [[nodiscard]] std::size_t members_of(std::int32_t set_id);
    /// The times of all ranks are converted with the clock of the lowest rank (member 0), so that they can be compared.
    [[nodiscard]] base::RecorderReader reader_of(std::size_t member, base::ClockPair now) const {
        return {*arena_->recorder(static_cast<std::uint32_t>(member)), *arena_->recorder(0), now};
    }
    [[nodiscard]] std::int64_t now_ns() const;
    /// Waits for `time`. A call of stop() ends the wait early. Returns whether stop() was called.
    bool sleep(Nanoseconds time);

    std::shared_ptr<collectives::Arena> arena_;
    base::TimelineHeader header_;
    TimelineFile file_;
    base::TraceEvents events_;
    static constexpr std::size_t kMostHeld = 16384;
    base::OperationGroups groups_{kMostHeld};
    std::vector<RingDrain> drains_;                          // one for each member of the host
    std::unordered_map<std::int32_t, std::size_t> members_;  // the number of members on this host, by set
    std::string text_;                                       // the text that is not written yet

    std::mutex mutex_;
    std::condition_variable changed_;  // notified by stop() and at the end of run()
    bool stopping_ = false;            // under mutex_
    bool done_ = false;                // under mutex_
    Status result_;                    // written before done_
    base::TimelineEnd end_;            // written before done_
};

}  // namespace rueda::core
