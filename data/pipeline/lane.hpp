// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The Rueda authors
#pragma once

#include <atomic>
#include <condition_variable>
#include <cstdint>
#include <deque>
#include <memory>
#include <mutex>
#include <string>
#include <thread>
#include <vector>

#include "base/status.hpp"
#include "data/formats/record_reader.hpp"
#include "data/pipeline/plan.hpp"
#include "data/sources/source_cache.hpp"

namespace rueda::data {

/// Records that were permuted together, and the memory in which they lie. A window does not change after the lane
/// handed it out.
struct Window {
    std::vector<Record> records;
    std::vector<RecordMemory> memory;
    std::size_t begin = 0;    ///< index of the first record to use; the records before it belong to steps before the
                              ///< start of the pipeline
    bool ends_epoch = false;  ///< true if no window of this epoch follows
    std::int64_t lost = 0;    ///< number of damaged sources whose remaining records were lost
    std::string first_lost;   ///< the message about the first of the `lost` sources
    Status failed;            ///< if this is a failure, no further window follows
};

/// Reads one lane (a sequence of sources) in a thread of its own, and permutes its records. Threads: one thread at a
/// time may call take(); the destructor is called when no other thread uses the object.
class Lane {
public:
    /// Starts the thread. `options`, `header` and `cache` (which may be null) must outlive the object.
    Lane(const PipelineOptions& options, const LanePlan& plan, const std::string& header, SourceCache* cache);
    /// Stops the thread and waits for it.
    ~Lane();
    Lane(const Lane&) = delete;
    Lane& operator=(const Lane&) = delete;

    /// Waits for the next window. The lane's thread wakes this wait when a window is ready, and stop() wakes it, too.
    /// After stop(), the result may be a null pointer.
    [[nodiscard]] std::shared_ptr<const Window> take();
    /// Makes take() return, and ends the thread. Threads: any.
    void stop();
    /// How long the thread has worked.
    [[nodiscard]] double seconds() const noexcept;

private:
    void run() noexcept;
    void read_epochs();
    /// Returns false if the lane was stopped, or if reading has failed.
    bool read_epoch(std::int64_t epoch);
    bool read_source(std::uint32_t source, std::int64_t epoch);
    bool add(const Block& block);
    bool finish_window(bool ends_epoch);
    bool fail(Status status);
    /// Waits until the queue has room. take() and stop() wake this wait.
    bool put(std::shared_ptr<const Window> window);

    const PipelineOptions& options_;
    LanePlan plan_;
    const std::string& header_;
    SourceCache* const cache_;
    StopSignal stop_signal_;

    // Only the lane's thread uses the following fields.
    std::shared_ptr<Window> filling_;
    std::int64_t epoch_ = 0;
    std::int64_t window_ = 0;    ///< number of the window in its epoch
    std::int64_t position_ = 0;  ///< number of records of the epoch before the window that is being filled
    std::int64_t skip_ = 0;      ///< number of records of the epoch that belong to steps before the pipeline's start
    std::int64_t since_ = 0;     ///< when the thread last began to work: at its start, or after a wait for room

    std::mutex mutex_;
    std::condition_variable has_window_;  ///< take() waits on this condition; put() and stop() notify it
    std::condition_variable has_room_;    ///< put() waits on this condition; take() and stop() notify it
    std::deque<std::shared_ptr<const Window>> queue_;
    bool stopped_ = false;
    std::atomic<std::int64_t> nanoseconds_ = 0;  ///< relaxed, because it only counts
    std::thread thread_;
};

/// The time of a steady clock.
[[nodiscard]] std::int64_t nanoseconds_now() noexcept;

}  // namespace rueda::data
