// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The Rueda authors
#pragma once

#include <atomic>
#include <chrono>
#include <condition_variable>
#include <mutex>
#include <string>
#include <vector>

#include "base/status.hpp"
#include "base/timeline/timeline_part.hpp"

namespace rueda::core {

/// The path of a host's part of a timeline.
[[nodiscard]] std::string part_path(const std::string& path, std::int32_t host_index);

/// The command that merges the parts.
[[nodiscard]] std::string merge_command(const std::string& path, std::int32_t host_count);

/// After the job, merges the hosts' parts of each timeline into one file, if this host sees all parts. The parts stay
/// as they are until the merged file is complete. Then the merged file replaces the first part, and the other parts are
/// removed.
///
/// Threads: run() is the function of a thread, which shares the ownership of this object. The owner calls wait(), and
/// may give up while the thread waits for the file system.
class WholeTimelines {
public:
    /// `job` is the header of the first host's part. `paths` are the paths of the timelines to merge.
    WholeTimelines(base::TimelineHeader job, std::vector<std::string> paths)
        : job_(std::move(job)), left_(std::move(paths)) {}

    void run() noexcept;

    /// Waits until the thread has merged all timelines. After `patience`, this function gives up, and the thread stops
    /// at its next write. Returns whether the thread has ended.
    [[nodiscard]] bool wait(std::chrono::milliseconds patience);
    /// left() returns the timelines that were not merged. reason() says why the first of them was not merged.
    [[nodiscard]] std::vector<std::string> left() const;
    [[nodiscard]] std::string reason() const;

private:
    [[nodiscard]] Status await_parts(const std::string& path, std::chrono::steady_clock::time_point deadline);
    [[nodiscard]] Status merge(const std::string& path);
    [[nodiscard]] bool wait_until_done(std::chrono::milliseconds patience);

    base::TimelineHeader job_;
    std::atomic<bool> is_given_up_{false};  // accesses are relaxed: wait() sets this flag, and the thread reads it
                                            // again and again

    mutable std::mutex mutex_;
    std::condition_variable changed_;  // the end of run() notifies
    std::vector<std::string> left_;    // mutex_ protects this field and the fields below
    std::string reason_;
    bool is_done_ = false;
};

}  // namespace rueda::core
