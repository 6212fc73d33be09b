// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The Rueda authors
#include "data/pipeline/assembly.hpp"

#include <algorithm>
#include <exception>
#include <utility>

namespace rueda::data {

bool LaneCursor::wait_for_window(Work& work) {
    auto window = lane_->take();
    if (window == nullptr) {
        work.failed = Status(ErrorCode::aborted, "the pipeline was stopped");
        return false;
    }
    if (!window->failed.is_ok()) {
        work.failed = window->failed;
        return false;
    }
    if (window->lost > 0 && work.lost == 0) {
        work.first_lost = window->first_lost;
    }
    work.lost += window->lost;
    if (windows_.empty()) {
        place_ = window->begin;
    }
    // If the pipeline starts in the middle of an epoch, the first window has records of earlier steps: those before the
    // index `begin`. In all other windows, `begin` is zero.
    ready_ += static_cast<std::int64_t>(window->records.size() - window->begin);
    epoch_ends_ = window->ends_epoch;
    windows_.push_back(std::move(window));
    return true;
}

std::int64_t LaneCursor::wait_for_step(Work& work) {
    while (ready_ < plan_.per_step && !epoch_ends_) {
        if (!wait_for_window(work)) {
            return 0;
        }
    }
    return std::min(ready_, plan_.per_step);
}

void LaneCursor::take(std::int64_t count, Work& work) {
    // If the lane has fewer records left than a step takes, the ranks divide the remaining records in the same
    // proportion as the records of a full step.
    const std::int64_t begin = plan_.share_begin * count / plan_.per_step;
    const std::int64_t end = plan_.share_end * count / plan_.per_step;
    std::int64_t done = 0;
    while (done < count) {
        const auto& window = windows_.front();
        const auto rest = static_cast<std::int64_t>(window->records.size() - place_);
        const std::int64_t piece = std::min(rest, count - done);
        const std::int64_t from = std::clamp(begin - done, std::int64_t{0}, piece);
        const std::int64_t to = std::clamp(end - done, std::int64_t{0}, piece);
        if (from < to) {
            const auto records = window->records.begin() + static_cast<std::ptrdiff_t>(place_);
            work.records.insert(work.records.end(), records + from, records + to);
            work.windows.push_back(window);
        }
        done += piece;
        place_ += static_cast<std::size_t>(piece);
        if (place_ == window->records.size() && windows_.size() > 1) {
            windows_.pop_front();
            place_ = windows_.front()->begin;
        } else if (piece == 0) {
            break;  // the last window is empty; wait_for_step() counted no record in it
        }
    }
    ready_ -= count;
}

void LaneCursor::finish_epoch(Work& work) {
    while (!epoch_ends_ && wait_for_window(work)) {
        windows_.erase(windows_.begin(), windows_.end() - 1);
    }
    windows_.clear();
    place_ = 0;
    ready_ = 0;
    epoch_ends_ = false;
}

Assembly::Assembly(const PipelineOptions& options, const std::string& header, SourceCache* cache)
    : options_(options), epoch_(options.start.epoch), step_(options.start.step) {
    const auto plans = plan_lanes(options);
    cursors_.reserve(plans.size());
    for (const LanePlan& plan : plans) {
        cursors_.emplace_back(options, plan, header, cache);
    }
    counts_.resize(cursors_.size());
    ended_ = options.epochs != 0 && epoch_ >= options.epochs;
}

bool Assembly::next(Work& work) {
    work = {};
    if (ended_) {
        return false;
    }
    try {
        return collect(work);
    } catch (const std::exception& error) {
        // The program ran out of memory. The consumer gets this error as the result of the step.
        ended_ = true;
        work = {};
        work.failed = failure(ErrorCode::resource_exhausted, "collecting the records of a batch: {}", error.what());
        return true;
    }
}

bool Assembly::collect(Work& work) {
    work.epoch = epoch_;
    work.step = step_;
    std::int64_t records = 0;
    bool is_full = true;
    for (std::size_t i = 0; i < cursors_.size() && work.failed.is_ok(); ++i) {
        counts_[i] = cursors_[i].wait_for_step(work);
        records += counts_[i];
        is_full = is_full && counts_[i] == cursors_[i].plan().per_step;
    }
    if (!work.failed.is_ok()) {
        ended_ = true;
        return work.failed.code() != ErrorCode::aborted;
    }
    if (records == 0 || (options_.remainder == Remainder::drop && !is_full)) {
        return end_epoch(work);
    }
    for (std::size_t i = 0; i < cursors_.size(); ++i) {
        cursors_[i].take(counts_[i], work);
    }
    ++step_;
    return true;
}

bool Assembly::end_epoch(Work& work) {
    for (LaneCursor& cursor : cursors_) {
        cursor.finish_epoch(work);
    }
    work.ends_epoch = true;
    ++epoch_;
    step_ = 0;
    ended_ = !work.failed.is_ok() || (options_.epochs != 0 && epoch_ >= options_.epochs);
    return work.failed.is_ok() || work.failed.code() != ErrorCode::aborted;
}

void Assembly::stop() {
    for (const LaneCursor& cursor : cursors_) {
        cursor.lane().stop();
    }
}

double Assembly::lane_seconds() const {
    double seconds = 0;
    for (const LaneCursor& cursor : cursors_) {
        seconds += cursor.lane().seconds();
    }
    return seconds;
}

}  // namespace rueda::data
