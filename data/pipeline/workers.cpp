// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The Rueda authors
#include "data/pipeline/workers.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <iterator>
#include <utility>

#include "data/pipeline/padding.hpp"

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

template <class Function>
void for_each_array(Batch& batch, const Function& function) {
    for (Column& column : batch.columns()) {
        for (Array* const array : {&column.data, &column.offset_data}) {
            if (array->data() != nullptr) {
                function(array->data());
            }
        }
    }
}

/// Remembers, for is_idle(), which work the devices still have to do with the arrays of a batch.
void note_work(Batch& batch) {
    if (batch.memory() != nullptr && batch.memory()->note_work != nullptr) {
        for_each_array(batch, batch.memory()->note_work);
    }
}

/// Whether the devices have finished the work that note_work() has remembered.
bool is_idle(Batch& batch) {
    bool all = true;
    if (batch.memory() != nullptr && batch.memory()->is_idle != nullptr) {
        for_each_array(batch, [&](void* memory) { all = all && batch.memory()->is_idle(memory); });
    }
    return all;
}

/// Measures times. add_to() adds the time since its last call to a counter.
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

/// Returns the names of the columns that a batch has before the map functions run. Throws InvalidArgument if two
/// columns have the same name.
std::vector<std::string> names_of_columns(Parser& parser, const PipelineOptions& options) {
    Batch batch;
    parser.begin(batch, 0);
    parser.end(0);
    std::vector<std::string> names;
    for (const Column& column : batch.columns()) {
        names.push_back(column.name);
    }
    if (options.remainder == Remainder::pad) {
        if (std::ranges::find(names, options.weights) != names.end()) {
            throw InvalidArgument(fmt::format(
                "pipeline: remainder is pad, and the column of weights has the name '{}', like a column of the format; "
                "give `weights` another name",
                options.weights));
        }
    }
    return names;
}

std::int64_t rows_of_full_batch(const PipelineOptions& options) {
    std::int64_t rows = 0;
    for (const LanePlan& plan : plan_lanes(options)) {
        rows += plan.share_end - plan.share_begin;
    }
    return rows;
}

}  // namespace

Workers::Workers(const PipelineOptions& options, const std::string& header, SourceCache* cache,
                 std::vector<std::unique_ptr<Parser>> parsers)
    : options_(options),
      full_rows_(rows_of_full_batch(options)),
      column_names_(names_of_columns(*parsers.front(), options)),
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
    const bool has_memory = std::ranges::all_of(columns, [this](const Column& column) {
        return column.data.memory() == options_.memory && column.offset_data.memory() == options_.memory;
    });
    if (!fits || !has_memory || batch.memory() != options_.memory) {
        // Do not keep this batch, because it cannot be filled again. For example, the caller's first batch is empty, or
        // the program has put arrays of other memory into it.
        return;
    }
    note_work(batch);
    Batch oldest;
    {
        const std::lock_guard lock(mutex_);
        recycled_.push_back(std::move(batch));
        if (recycled_.size() <= slots_.size()) {
            return;
        }
        oldest = std::move(recycled_.front());
        recycled_.erase(recycled_.begin());
    }
    // There are more batches than slots: a device was slow, and the workers made additional batches. The oldest batch
    // is freed here if no device uses it. is_idle() is called without the lock, because workers may be waiting for the
    // lock.
    if (!is_idle(oldest)) {
        const std::lock_guard lock(mutex_);
        recycled_.insert(recycled_.begin(), std::move(oldest));
    }
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
            // A map function has thrown, or the program ran out of memory. The consumer gets the exception when it
            // takes this step.
            outcome = {};
            outcome.error = std::current_exception();
        }
        finish(number, std::move(outcome));
    }
}

/// Begins the next step. Returns false if there is no further step. The lock lets only one worker at a time begin a
/// step, so the steps are begun in order.
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
        outcome.batch = fresh_batch();
        fill(outcome.batch, work, parser, outcome);
    }
    if (work.lost > 0) {
        outcome.malformed.count += work.lost;
        outcome.malformed.first = work.first_lost;
    }
    return outcome;
}

void Workers::fill(Batch& batch, Work& work, Parser& parser, Outcome& outcome) {
    Stopwatch stopwatch;
    batch.set_place(work.epoch, work.step);
    outcome.malformed = parse_all(parser, work.records, batch, [&](std::uint32_t source) {
        return name_in_epoch(options_.sources[source], work.epoch);
    });
    outcome.records = static_cast<std::int64_t>(work.records.size());
    outcome.parsed = batch.rows();
    for (const Record& record : work.records) {
        outcome.bytes += static_cast<std::int64_t>(record.size);
    }
    outcome.bytes += static_cast<std::int64_t>(parser.bytes_read());
    work.windows.clear();
    stopwatch.add_to(parsing_);
    for (const auto& map : options_.maps) {
        map(batch);
    }
    // The map functions get no padding and no weights. They may remove rows, so the column of weights is added after
    // they have run.
    if (options_.remainder == Remainder::pad) {
        add_weights(batch, options_.weights);
        pad_rows(batch, full_rows_);
    }
    stopwatch.add_to(mapping_);
}

Batch Workers::fresh_batch() {
    // is_idle() is called without the lock, because next() may be waiting for the lock. If another worker finds no
    // batch meanwhile, it makes a new one.
    std::vector<Batch> busy;
    Batch batch = newest_recycled();
    while (!batch.columns().empty() && !is_idle(batch)) {
        busy.push_back(std::move(batch));
        batch = newest_recycled();
    }
    // The columns that were added after parsing are removed, because they will be added again. Their memory could not
    // be freed earlier: when recycle() took the batch back, a device may still have been reading this memory.
    batch.keep_columns(column_names_.size());
    const std::lock_guard lock(mutex_);
    recycled_.insert(recycled_.end(), std::make_move_iterator(busy.rbegin()), std::make_move_iterator(busy.rend()));
    return batch;
}

/// Takes the batch that came back last, because its memory is most likely in the processor's caches. If no batch came
/// back, returns a new batch without columns.
Batch Workers::newest_recycled() {
    const std::lock_guard lock(mutex_);
    if (recycled_.empty()) {
        return Batch(options_.memory);
    }
    Batch batch = std::move(recycled_.back());
    recycled_.pop_back();
    return batch;
}

}  // namespace rueda::data
