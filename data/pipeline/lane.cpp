// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The Rueda authors
#include "data/pipeline/lane.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <chrono>
#include <exception>
#include <utility>

namespace rueda::data {

namespace {

/// The maximum number of windows that wait in the queue. While the consumer takes records from one window, a second one
/// is ready, and the lane's thread fills a third one.
constexpr std::size_t kQueuedWindows = 1;
/// The maximum number of windows in the queue if the records are not shuffled. In this case a window is a chunk of 1
/// MiB. The queue may have more of these small windows, because a batch may need several chunks.
constexpr std::size_t kQueuedChunks = 4;

}  // namespace

std::int64_t nanoseconds_now() noexcept {
    return std::chrono::duration_cast<std::chrono::nanoseconds>(std::chrono::steady_clock::now().time_since_epoch())
        .count();
}

Lane::Lane(const PipelineOptions& options, const LanePlan& plan, const std::string& header, SourceCache* cache)
    : options_(options),
      plan_(plan),
      header_(header),
      cache_(cache),
      filling_(std::make_shared<Window>()),
      thread_([this] { run(); }) {}

Lane::~Lane() {
    stop();
    thread_.join();
}

std::shared_ptr<const Window> Lane::take() {
    std::unique_lock lock(mutex_);
    has_window_.wait(lock, [this] { return stopped_ || !queue_.empty(); });
    if (queue_.empty()) {
        return nullptr;
    }
    auto window = std::move(queue_.front());
    queue_.pop_front();
    has_room_.notify_one();
    return window;
}

void Lane::stop() {
    stop_signal_.give();
    const std::lock_guard lock(mutex_);
    stopped_ = true;
    has_window_.notify_all();
    has_room_.notify_all();
}

double Lane::seconds() const noexcept {
    return static_cast<double>(nanoseconds_.load(std::memory_order_relaxed)) * 1e-9;
}

void Lane::run() noexcept {
    since_ = nanoseconds_now();
    Status failed;
    try {
        read_epochs();
        return;
    } catch (const Error& error) {
        failed = Status(error.code(), error.what());
    } catch (const std::exception& error) {
        failed = Status(ErrorCode::resource_exhausted, error.what());
    }
    // fail() passes the failure to the thread that waits in take(). If fail() itself finds no memory, it throws, and
    // the program ends here.
    fail(failed);
}

void Lane::read_epochs() {
    const std::int64_t first = options_.start.epoch;
    for (std::int64_t epoch = first; options_.epochs == 0 || epoch < options_.epochs; ++epoch) {
        skip_ = epoch == first ? options_.start.step * plan_.per_step : 0;
        if (!read_epoch(epoch)) {
            return;
        }
    }
}

bool Lane::read_epoch(std::int64_t epoch) {
    epoch_ = epoch;
    window_ = 0;
    position_ = 0;
    for (const std::uint32_t source : order_of_sources(options_, plan_.lane, epoch)) {
        if (!read_source(source, epoch)) {
            return false;
        }
    }
    return finish_window(true);
}

bool Lane::read_source(std::uint32_t source, std::int64_t epoch) {
    const auto reader =
        make_block_reader(options_.sources[source], source, epoch, options_.format, header_, stop_signal_, cache_);
    Block block;
    while (reader->next(block)) {
        if (!block.failed.is_ok()) {
            return fail(block.failed);
        }
        // put() returns false after stop(). But this loop may run for a long time without put(): while it fills a large
        // window, and while it skips the records before the start. So it looks at the stop signal itself.
        if (stop_signal_.is_given() || !add(block)) {
            return false;
        }
    }
    return true;
}

bool Lane::add(const Block& block) {
    if (!block.lost.is_ok() && filling_->lost++ == 0) {
        filling_->first_lost = block.lost.message();
    }
    std::size_t used = 0;
    while (used != block.records.size()) {
        const std::size_t wanted = plan_.window == 0
                                       ? block.records.size()
                                       : static_cast<std::size_t>(plan_.window) - filling_->records.size();
        const std::size_t count = std::min(wanted, block.records.size() - used);
        const auto from = block.records.begin() + static_cast<std::ptrdiff_t>(used);
        filling_->records.insert(filling_->records.end(), from, from + static_cast<std::ptrdiff_t>(count));
        if (block.memory != nullptr) {
            filling_->memory.push_back(block.memory);
        }
        used += count;
        if (count == wanted && !finish_window(false)) {
            return false;
        }
    }
    return true;
}

bool Lane::finish_window(bool ends_epoch) {
    auto window = std::exchange(filling_, std::make_shared<Window>());
    const auto count = static_cast<std::int64_t>(window->records.size());
    if (plan_.window > 0) {
        filling_->records.reserve(static_cast<std::size_t>(std::min(count, plan_.window)));
        permute(window->records, options_.seed, epoch_, plan_.lane, window_);
    }
    window->begin = static_cast<std::size_t>(std::clamp<std::int64_t>(skip_ - position_, 0, count));
    window->ends_epoch = ends_epoch;
    ++window_;
    position_ += count;
    if (window->begin == window->records.size() && !ends_epoch && count > 0) {
        return true;  // nothing to hand out: all records of the window belong to earlier steps
    }
    return put(std::move(window));
}

bool Lane::fail(Status status) {
    auto window = std::make_shared<Window>();
    window->failed = std::move(status);
    put(std::move(window));
    return false;
}

bool Lane::put(std::shared_ptr<const Window> window) {
    nanoseconds_.fetch_add(nanoseconds_now() - since_, std::memory_order_relaxed);
    {
        std::unique_lock lock(mutex_);
        const std::size_t most = plan_.window > 0 ? kQueuedWindows : kQueuedChunks;
        has_room_.wait(lock, [&] { return stopped_ || queue_.size() < most; });
        if (stopped_) {
            return false;
        }
        queue_.push_back(std::move(window));
        has_window_.notify_one();
    }
    since_ = nanoseconds_now();
    return true;
}

}  // namespace rueda::data
