// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The Rueda authors
#include "data/pipeline/workers.hpp"

#include <algorithm>
#include <utility>

namespace rueda::data {

namespace {

std::exception_ptr to_exception(const Status& status) {
    try {
        status.throw_if_failed();
    } catch (...) {
        return std::current_exception();
    }
    return nullptr;
}

/// Adds the time since the last call to a counter.
class Stopwatch {
public:
    void add_to(std::atomic<std::int64_t>& counter) noexcept {
        const std::int64_t now = nanoseconds_now();
        counter.fetch_add(now - since_, std::memory_order_relaxed);
        since_ = now;
    }

private:
    std::int64_t since_ = nanoseconds_now();
};

std::vector<std::string> names_of_columns(Parser& parser) {
    Batch batch;
    parser.begin(batch, 0);
    parser.end(0);
    std::vector<std::string> names;
    for (const Column& column : batch.columns()) {
        names.push_back(column.name);
    }
    return names;
}

}  // namespace

Workers::Workers(const PipelineOptions& options, const std::string& header, SourceCache* cache,
                 std::vector<std::unique_ptr<Parser>> parsers)
    : options_(options),
      column_names_(names_of_columns(*parsers.front())),
      assembly_(options, header, cache),
      slots_(static_cast<std::size_t>(options.prefetch)),
      parsers_(std::move(parsers)) {
    threads_.reserve(parsers_.size());
    try {
        for (const auto& parser : parsers_) {
            threads_.emplace_back([this, &parser = *parser] { run(parser); });
        }
    } catch (...) {
        stop();  // the system refused a thread
        throw;
    }
}

Workers::~Workers() { stop(); }

void Workers::stop() {
    {
        const std::lock_guard lock(mutex_);
        stopped_ = true;
        has_room_.notify_all();
    }
    assembly_.stop();
    for (std::thread& thread : threads_) {
        thread.join();
    }
}

bool Workers::has_next() const {
    return slots_[static_cast<std::size_t>(taken_) % slots_.size()].is_ready || (ended_ && taken_ == begun_);
}

bool Workers::wait_for(std::chrono::nanoseconds timeout, double& waited) {
    const std::int64_t since = nanoseconds_now();
    std::unique_lock lock(mutex_);
    const bool ready = has_outcome_.wait_for(lock, timeout, [this] { return has_next(); });
    waited += static_cast<double>(nanoseconds_now() - since) * 1e-9;
    return ready;
}

bool Workers::take(Outcome& outcome, double& waited) {
    const std::int64_t since = nanoseconds_now();
    std::unique_lock lock(mutex_);
    Outcome& slot = slots_[static_cast<std::size_t>(taken_) % slots_.size()];
    has_outcome_.wait(lock, [this] { return has_next(); });
    waited += static_cast<double>(nanoseconds_now() - since) * 1e-9;
    if (!slot.is_ready) {
        return false;
    }
    outcome = std::move(slot);
    slot = {};
    ++taken_;
    has_room_.notify_one();
    return true;
}

void Workers::recycle(Batch&& batch) {
    const auto columns = batch.columns();
    const bool fits = columns.size() >= column_names_.size() &&
                      std::equal(column_names_.begin(), column_names_.end(), columns.begin(),
                                 [](const std::string& name, const Column& column) { return column.name == name; });
    if (!fits || batch.memory() != options_.memory) {
        return;  // for example the caller's first batch, which is empty
    }
    // The columns that map functions added are removed, because these functions will add them again to the next batch.
    batch.keep_columns(column_names_.size());
    const std::lock_guard lock(mutex_);
    recycled_.push_back(std::move(batch));
}

void Workers::add_to(Statistics& statistics) const {
    statistics.starved = static_cast<double>(starved_.load(std::memory_order_relaxed)) * 1e-9;
    statistics.parsing = static_cast<double>(parsing_.load(std::memory_order_relaxed)) * 1e-9;
    statistics.mapping = static_cast<double>(mapping_.load(std::memory_order_relaxed)) * 1e-9;
    statistics.reading = assembly_.lane_seconds();
    statistics.lanes = assembly_.lanes();
    statistics.threads = static_cast<int>(threads_.size());
}

void Workers::run(Parser& parser) noexcept {
    Work work;
    std::int64_t number = 0;
    while (begin_step(work, number)) {
        Outcome outcome;
        try {
            outcome = parse(work, parser);
        } catch (...) {
            // A map function has thrown, or the program ran out of memory. The consumer gets the exception at this
            // step.
            outcome = {};
            outcome.error = std::current_exception();
        }
        finish(number, std::move(outcome));
    }
}

/// Begins the next step. Returns false if there is none. The lock lets only one worker at a time begin a step, so the
/// steps are begun in order.
bool Workers::begin_step(Work& work, std::int64_t& number) {
    const std::lock_guard lock(assembly_mutex_);
    if (!wait_for_room(number)) {
        return false;
    }
    Stopwatch stopwatch;
    const bool has_step = assembly_.next(work);
    stopwatch.add_to(starved_);
    const std::lock_guard state_lock(mutex_);
    if (has_step) {
        ++begun_;
    } else {
        ended_ = true;
        has_outcome_.notify_all();
    }
    return has_step;
}

bool Workers::wait_for_room(std::int64_t& number) {
    std::unique_lock lock(mutex_);
    has_room_.wait(lock, [this] { return stopped_ || ended_ || begun_ - taken_ < options_.prefetch; });
    number = begun_;
    return !stopped_ && !ended_;
}

void Workers::finish(std::int64_t number, Outcome&& outcome) {
    const std::lock_guard lock(mutex_);
    Outcome& slot = slots_[static_cast<std::size_t>(number) % slots_.size()];
    slot = std::move(outcome);
    slot.is_ready = true;
    has_outcome_.notify_all();
}

Outcome Workers::parse(Work& work, Parser& parser) {
    Outcome outcome;
    outcome.ends_epoch = work.ends_epoch;
    if (!work.failed.is_ok()) {
        outcome.error = to_exception(work.failed);
        return outcome;
    }
    if (!work.ends_epoch) {
        Stopwatch stopwatch;
        outcome.batch = fresh_batch();
        outcome.batch.set_place(work.epoch, work.step);
        outcome.malformed = parse_all(parser, work.records, outcome.batch, [&](std::uint32_t source) {
            return name_in_epoch(options_.sources[source], work.epoch);
        });
        for (const Record& record : work.records) {
            outcome.bytes += static_cast<std::int64_t>(record.size);
        }
        outcome.bytes += static_cast<std::int64_t>(parser.bytes_read());
        work.windows.clear();
        stopwatch.add_to(parsing_);
        for (const auto& map : options_.maps) {
            map(outcome.batch);
        }
        stopwatch.add_to(mapping_);
    }
    if (work.lost > 0) {
        outcome.malformed.count += work.lost;
        outcome.malformed.first = work.first_lost;
    }
    return outcome;
}

Batch Workers::fresh_batch() {
    const std::lock_guard lock(mutex_);
    if (recycled_.empty()) {
        return Batch(options_.memory);
    }
    Batch batch = std::move(recycled_.back());
    recycled_.pop_back();
    return batch;
}

}  // namespace rueda::data
