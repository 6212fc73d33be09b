// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The Rueda authors
#include "training/replicas/divided_reduction.hpp"

#include <algorithm>
#include <span>
#include <utility>

namespace rueda::training {
namespace {

/// Adds up `count` elements of all sources into the first source.
void add_into_first(std::span<float* const> sources, std::size_t first, std::size_t count) {
    if (sources.size() > 1 && count > 0) {
        add_up(sources, sources[0], first, count);
    }
}

}  // namespace

DividedReduction::DividedReduction(std::vector<Gradient> gradients, int replicas, const LocalDivision& division,
                                   Completed completed)
    : gradients_(std::move(gradients)),
      replicas_(replicas),
      division_(division),
      groups_((replicas + division.group - 1) / division.group),
      completed_(std::move(completed)),
      progress_(gradients_.size(), {.arrived = std::vector<int>(static_cast<std::size_t>(groups_))}) {}

void DividedReduction::begin() {
    const std::lock_guard lock(mutex_);
    for (Progress& each : progress_) {
        std::fill(each.arrived.begin(), each.arrived.end(), 0);
        each.groups = 0;
        each.taken = 0;
        each.added = 0;
    }
    open_.clear();
    open_pieces_ = 0;
    completed_count_ = 0;
    stopped_ = false;
}

int DividedReduction::group_end(int group) const noexcept { return std::min(replicas_, group_begin(group + 1)); }

std::size_t DividedReduction::pieces(std::size_t gradient) const noexcept {
    const std::size_t count = gradients_[gradient].count;
    return count == 0 ? 1 : (count - 1) / division_.piece + 1;
}

void DividedReduction::arrive(std::size_t gradient, int replica) {
    const int group = replica / division_.group;
    std::unique_lock lock(mutex_);
    const bool is_last =
        ++progress_[gradient].arrived[static_cast<std::size_t>(group)] == group_end(group) - group_begin(group);
    if (is_last && pieces(gradient) == 1) {
        lock.unlock();
        complete_group(gradient, group);
        lock.lock();
    } else if (is_last) {
        open_.push_back(gradient);
        open_pieces_ += pieces(gradient);
        changed_.notify_all();  // wakes help_until_done()
    }
    // This replica adds up only its share of the open pieces. So no replica's backward pass becomes much longer than
    // the backward passes of the other replicas.
    const auto all = static_cast<std::size_t>(replicas_);
    for (std::size_t share = (open_pieces_ + all - 1) / all; share > 0 && !open_.empty(); --share) {
        add_piece(lock);
    }
}

/// Adds up a gradient within a group, when all replicas of the group have it. The gradient is not divided into pieces.
/// The group that comes last also adds up the sums of all groups.
void DividedReduction::complete_group(std::size_t gradient, int group) {
    const Gradient& summed = gradients_[gradient];
    const auto begin = static_cast<std::size_t>(group_begin(group));
    const auto end = static_cast<std::size_t>(group_end(group));
    add_into_first(std::span(summed.replicas).subspan(begin, end - begin), 0, summed.count);
    {
        const std::lock_guard lock(mutex_);
        if (++progress_[gradient].groups < groups_) {
            return;
        }
    }
    if (groups_ > 1) {
        std::vector<float*> sums;
        for (int each = 0; each < groups_; ++each) {
            sums.push_back(summed.replicas[static_cast<std::size_t>(group_begin(each))]);
        }
        add_into_first(sums, 0, summed.count);
    }
    completed_(gradient);
    const std::lock_guard lock(mutex_);
    if (++completed_count_ == gradients_.size()) {
        changed_.notify_all();  // wakes help_until_done()
    }
}

/// Takes a piece of the first gradient in `open_`, and adds it up. `lock` holds the mutex before
/// and after the call, but not during the additions.
void DividedReduction::add_piece(std::unique_lock<std::mutex>& lock) {
    const std::size_t gradient = open_.front();
    const Gradient& summed = gradients_[gradient];
    Progress& progress = progress_[gradient];
    const std::size_t first = division_.piece * progress.taken;
    --open_pieces_;
    if (++progress.taken == pieces(gradient)) {
        open_.pop_front();
    }
    lock.unlock();
    add_into_first(summed.replicas, first, std::min(division_.piece, summed.count - first));
    lock.lock();
    if (++progress.added < pieces(gradient)) {
        return;
    }
    lock.unlock();
    completed_(gradient);
    lock.lock();
    if (++completed_count_ == gradients_.size()) {
        changed_.notify_all();  // wakes help_until_done()
    }
}

void DividedReduction::help_until_done(int /*replica*/) {
    if (division_.piece == std::numeric_limits<std::size_t>::max()) {
        return;
    }
    std::unique_lock lock(mutex_);
    while (!stopped_ && completed_count_ < gradients_.size()) {
        if (open_.empty()) {
            changed_.wait(lock);  // arrive(), complete_group(), add_piece() or stop() wakes this thread
        } else {
            add_piece(lock);
        }
    }
}

void DividedReduction::stop() {
    {
        const std::lock_guard lock(mutex_);
        stopped_ = true;
    }
    changed_.notify_all();
}

}  // namespace rueda::training
