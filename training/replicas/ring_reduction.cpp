// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The Rueda authors
#include "training/replicas/ring_reduction.hpp"

#include <algorithm>
#include <array>
#include <utility>

namespace rueda::training {

RingReduction::RingReduction(std::vector<Gradient> gradients, int replicas, Completed completed)
    : gradients_(std::move(gradients)),
      replicas_(static_cast<std::size_t>(replicas)),
      completed_(std::move(completed)),
      progress_(gradients_.size(),
                {.arrived = std::vector<std::uint8_t>(replicas_), .hops = std::vector<std::size_t>(replicas_)}),
      hops_(replicas_) {
    for (Hops& each : hops_) {
        each.possible.reserve(gradients_.size() * (replicas_ - 1));
    }
}

void RingReduction::begin() {
    const std::lock_guard lock(mutex_);
    for (Progress& each : progress_) {
        std::fill(each.arrived.begin(), each.arrived.end(), std::uint8_t{0});
        std::fill(each.hops.begin(), each.hops.end(), std::size_t{0});
        each.complete = 0;
    }
    for (Hops& each : hops_) {
        each.possible.clear();  // keeps its memory
        each.taken = 0;
    }
    completed_count_ = 0;
    stopped_ = false;
}

std::size_t RingReduction::first_of(std::size_t gradient, std::size_t piece) const noexcept {
    return gradients_[gradient].count * piece / replicas_;
}

/// Allows the next hop of a piece if it is possible. Then the sum of the piece has come to a replica, and this replica
/// and the next one have the gradient. The caller holds the mutex. Call this function after each event
/// that can make the hop possible: the arrival of the gradient at one of the two replicas, or the hop before. Only the
/// last of these events finds all conditions met, so each hop is allowed once.
void RingReduction::allow_next_hop(std::size_t gradient, std::size_t piece) {
    const Progress& progress = progress_[gradient];
    const std::size_t made = progress.hops[piece];
    const std::size_t next = (piece + made + 1) % replicas_;
    if (made + 1 < replicas_ && progress.arrived[piece] != 0 && progress.arrived[next] != 0) {
        hops_[next].possible.push_back({gradient, piece});
        changed_.notify_all();  // wakes help_until_done() of the next replica
    }
}

void RingReduction::arrive(std::size_t gradient, int replica) {
    const auto me = static_cast<std::size_t>(replica);
    std::unique_lock lock(mutex_);
    progress_[gradient].arrived[me] = 1;
    allow_next_hop(gradient, me);  // the first hop of the piece whose sum begins at this replica
    for (std::size_t piece = 0; piece < replicas_; ++piece) {
        if ((piece + progress_[gradient].hops[piece] + 1) % replicas_ == me) {
            allow_next_hop(gradient, piece);  // a hop into this replica
        }
    }
    make_hops(lock, me);
}

/// Makes all hops into a replica that are possible now. `lock` holds the mutex before and after the call, but not
/// during the additions.
void RingReduction::make_hops(std::unique_lock<std::mutex>& lock, std::size_t replica) {
    Hops& hops = hops_[replica];
    while (hops.taken < hops.possible.size()) {
        const Hop hop = hops.possible[hops.taken++];
        const std::size_t made = progress_[hop.gradient].hops[hop.piece];
        lock.unlock();
        add_hop(hop, made);
        lock.lock();
        end_hop(lock, hop);
    }
}

void RingReduction::add_hop(const Hop& hop, std::size_t made) const {
    const std::size_t first = first_of(hop.gradient, hop.piece);
    const std::size_t count = first_of(hop.gradient, hop.piece + 1) - first;
    if (count == 0) {
        return;
    }
    const std::vector<float*>& replicas = gradients_[hop.gradient].replicas;
    const std::size_t from = (hop.piece + made) % replicas_;
    const std::size_t into = (from + 1) % replicas_;
    const std::array<float*, 2> sources = {replicas[from], replicas[into]};
    // The last hop of every sum writes into replica 0. No other hop reads these elements of replica 0 any more, because
    // the sum has already passed replica 0, or ends there.
    add_up(sources, made + 2 == replicas_ ? replicas[0] : replicas[into], first, count);
}

void RingReduction::end_hop(std::unique_lock<std::mutex>& lock, const Hop& hop) {
    Progress& progress = progress_[hop.gradient];
    if (++progress.hops[hop.piece] + 1 < replicas_) {
        allow_next_hop(hop.gradient, hop.piece);
        return;
    }
    if (++progress.complete < replicas_) {
        return;
    }
    lock.unlock();
    completed_(hop.gradient);
    lock.lock();
    if (++completed_count_ == gradients_.size()) {
        changed_.notify_all();  // wakes help_until_done()
    }
}

void RingReduction::help_until_done(int replica) {
    const auto me = static_cast<std::size_t>(replica);
    const Hops& hops = hops_[me];
    std::unique_lock lock(mutex_);
    while (!stopped_ && completed_count_ < gradients_.size()) {
        if (hops.taken == hops.possible.size()) {
            changed_.wait(lock);  // arrive(), end_hop() or stop() wakes this thread
        } else {
            make_hops(lock, me);
        }
    }
}

void RingReduction::stop() {
    {
        const std::lock_guard lock(mutex_);
        stopped_ = true;
    }
    changed_.notify_all();
}

}  // namespace rueda::training
