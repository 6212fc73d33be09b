// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The Rueda authors
#pragma once

#include <atomic>
#include <chrono>
#include <condition_variable>
#include <cstdint>
#include <deque>
#include <exception>
#include <memory>
#include <mutex>
#include <string>
#include <thread>
#include <vector>

#include "data/formats/parser.hpp"
#include "data/pipeline/assembly.hpp"
#include "data/sources/source_cache.hpp"

namespace rueda::data {

/// The result of a worker for one step.
struct Outcome {
    bool is_ready = false;
    bool ends_epoch = false;
    Batch batch;
    std::int64_t bytes = 0;
    std::int64_t records = 0;  ///< number of this rank's records in the step
    std::int64_t parsed = 0;   ///< number of this rank's records in the step that are not malformed
    MalformedRecords malformed;
    std::exception_ptr error;
};

/// The threads that parse. They fill slots in the order of the steps, and the consumer empties them in this order.
/// Threads: one thread, the consumer, calls the public functions.
class Workers {
public:
    /// Starts the threads. complete() must have filled in `options`. `options`, `header` and
    /// `cache` (which may be null) must outlive the object. Each thread has a parser of its own.
    Workers(const PipelineOptions& options, const std::string& header, SourceCache* cache,
            std::vector<std::unique_ptr<Parser>> parsers);
    /// Stops the threads and waits for them.
    ~Workers();
    Workers(const Workers&) = delete;
    Workers& operator=(const Workers&) = delete;

    /// Waits for the next outcome. Returns false if all epochs have ended. The worker that fills the slot wakes this
    /// wait. Adds the time of the wait to `waited` (seconds).
    bool take(Outcome& outcome, double& waited);
    /// Waits like take(), but at most for the time `timeout`. Returns true if take() would now return at once.
    bool wait_for(std::chrono::nanoseconds timeout, double& waited);
    /// Takes back a batch that the consumer no longer needs. Later batches use its memory.
    void recycle(Batch&& batch);
    /// Fills in the numbers that the threads and lanes have counted.
    void add_to(Statistics& statistics) const;

private:
    /// Whether take() need not wait. The caller holds mutex_.
    [[nodiscard]] bool has_next() const;
    void stop();
    void run(Parser& parser) noexcept;
    [[nodiscard]] bool begin_step(Work& work, std::int64_t& number);
    [[nodiscard]] bool wait_for_room(std::int64_t& number);
    void finish(std::int64_t number, Outcome&& outcome);
    [[nodiscard]] Outcome parse(Work& work, Parser& parser);
    void fill(Batch& batch, Work& work, Parser& parser, Outcome& outcome);
    [[nodiscard]] Batch fresh_batch();
    [[nodiscard]] Batch newest_recycled();

    const PipelineOptions& options_;
    const std::int64_t full_rows_;           ///< the number of this rank's rows in a full batch
    std::vector<std::string> column_names_;  ///< the columns that a batch has before the map functions run
    std::mutex assembly_mutex_;  ///< guards assembly_; a worker locks it before mutex_, and holds it while the worker
                                 ///< waits for a lane
    Assembly assembly_;

    std::mutex mutex_;  ///< guards the members below
    /// take() and wait_for() wait on this condition; finish() and an ending worker notify it.
    std::condition_variable has_outcome_;
    /// wait_for_room() waits on this condition; take() and the destructor notify it.
    std::condition_variable has_room_;
    std::vector<Outcome> slots_;  ///< the outcome of step n is in slot n modulo the number of slots
    std::int64_t begun_ = 0;      ///< number of steps that the workers have begun
    std::int64_t taken_ = 0;      ///< number of steps that the consumer has taken
    bool ended_ = false;          ///< true if no worker will begin a further step
    bool stopped_ = false;
    std::vector<Batch> recycled_;

    // These three counters (in nanoseconds) are accessed with relaxed order, because no other data depends on them.
    std::atomic<std::int64_t> starved_ = 0;
    std::atomic<std::int64_t> parsing_ = 0;
    std::atomic<std::int64_t> mapping_ = 0;
    std::vector<std::unique_ptr<Parser>> parsers_;
    std::vector<std::thread> threads_;
};

}  // namespace rueda::data
