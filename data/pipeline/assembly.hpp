// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The Rueda authors
#pragma once

#include <cstdint>
#include <deque>
#include <memory>
#include <string>
#include <vector>

#include "base/status.hpp"
#include "data/pipeline/lane.hpp"
#include "data/pipeline/plan.hpp"
#include "data/sources/source_cache.hpp"

namespace rueda::data {

/// The work of a worker thread for one step, or the end of an epoch.
struct Work {
    std::int64_t epoch = 0;
    std::int64_t step = 0;
    bool ends_epoch = false;  ///< true if the epoch is over; then `records` is empty
    std::vector<Record> records;
    std::vector<std::shared_ptr<const Window>> windows;  ///< keep the records' memory alive
    std::int64_t lost = 0;                               ///< see Window::lost
    std::string first_lost;
    Status failed;  ///< if this is a failure, no further Work follows
};

/// Takes records from one lane.
class LaneCursor {
public:
    LaneCursor(const PipelineOptions& options, const LanePlan& plan, const std::string& header, SourceCache* cache)
        : plan_(plan), lane_(std::make_unique<Lane>(options, plan, header, cache)) {}

    [[nodiscard]] Lane& lane() const noexcept { return *lane_; }
    [[nodiscard]] const LanePlan& plan() const noexcept { return plan_; }
    /// Waits until the records of a step are there, or the epoch ends. Returns the number of records, at most
    /// LanePlan::per_step. Adds failures and lost records to `work`.
    std::int64_t wait_for_step(Work& work);
    /// Moves this rank's share of the next `count` records into `work`, and drops the shares of the other ranks.
    void take(std::int64_t count, Work& work);
    /// Drops the remaining records of the epoch.
    void finish_epoch(Work& work);

private:
    bool wait_for_window(Work& work);

    LanePlan plan_;
    std::unique_ptr<Lane> lane_;
    std::deque<std::shared_ptr<const Window>> windows_;
    std::size_t place_ = 0;    ///< index of the next record in the first window of `windows_`
    std::int64_t ready_ = 0;   ///< number of records in `windows_` that no step has taken yet
    bool epoch_ends_ = false;  ///< whether the last window of `windows_` ends the epoch
};

/// Decides which records belong to which step, in the order of the steps. Threads: one at a time, but any thread may
/// call stop(). next() may wait for a lane.
class Assembly {
public:
    /// Starts the threads of the lanes. `options`, `header` and `cache` (which may be null) must
    /// outlive the object.
    Assembly(const PipelineOptions& options, const std::string& header, SourceCache* cache);

    /// Collects the records of the next step. Returns false after the last epoch, after a failure, and after stop().
    bool next(Work& work);
    void stop();
    [[nodiscard]] double lane_seconds() const;
    [[nodiscard]] int lanes() const noexcept { return static_cast<int>(cursors_.size()); }

private:
    bool collect(Work& work);
    bool end_epoch(Work& work);

    const PipelineOptions& options_;
    std::vector<LaneCursor> cursors_;
    std::vector<std::int64_t> counts_;  ///< element n is the number of records of lane n in this step
    std::int64_t epoch_;
    std::int64_t step_;
    bool ended_ = false;
};

}  // namespace rueda::data
