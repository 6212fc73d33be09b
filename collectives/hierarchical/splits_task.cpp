// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The Rueda authors
#include "collectives/hierarchical/splits_task.hpp"

#include <cstring>

#include "base/assert.hpp"

namespace rueda::collectives {
namespace {

constexpr std::size_t kBytes = sizeof(std::int64_t);

}  // namespace

void SplitsTask::begin(std::span<const std::int64_t> to, std::span<std::int64_t> from) {
    RUEDA_ASSERT(to.size() == set_.hosts.size() && from.size() == to.size());
    to_ = to;
    from_ = from;
    told_ = learnt_ = set_.members == 1;
    from_[set_.hosts.my_rank()] = to_[set_.hosts.my_rank()];
    set_.begin_batch(HierarchicalSet::CellUse::by_pairs);
    start_messages();
}

void SplitsTask::start_messages() {
    const std::uint32_t size = set_.hosts.size();
    if (memory_ == nullptr) {
        memory_ = set_.messages.allocate(2 * kBytes * size);
    }
    sends_.assign(size, {});
    receives_.assign(size, {});
    received_ = 0;
    std::memcpy(memory_, to_.data(), to_.size_bytes());
    std::byte* const rooms = memory_ + kBytes * size;
    for (std::uint32_t step = 1; step < size; ++step) {
        const std::uint32_t to = (set_.hosts.my_rank() + step) % size;
        const std::uint32_t from = (set_.hosts.my_rank() + size - step) % size;
        if (!set_.hosts.is_here(from)) {
            receives_[from] = set_.messages.receive(from, {rooms + kBytes * from, kBytes});
        }
        if (!set_.hosts.is_here(to)) {
            sends_[to] = set_.messages.send(to, {memory_ + kBytes * to, kBytes});
        }
    }
}

void SplitsTask::take_messages() {
    const std::uint32_t size = set_.hosts.size();
    while (received_ < size && set_.messages.has_ended(receives_[received_]) &&
           set_.messages.has_ended(sends_[received_])) {
        if (!set_.hosts.is_here(received_)) {
            std::memcpy(&from_[received_], memory_ + kBytes * (size + received_), kBytes);
        }
        ++received_;
    }
}

StepResult SplitsTask::step() {
    take_messages();
    if (!set_.messages.failure().is_ok()) {
        return StepResult::waiting;
    }
    if (!told_ && set_.run_may_begin()) {
        tell_host();
    }
    if (told_ && !learnt_ && set_.all_reached(&Progress::staged, set_.chunks + 1)) {
        learn_from_host();
    }
    if (learnt_ && received_ == set_.hosts.size()) {
        set_.end_batch(set_.members > 1 ? 1 : 0);
        return StepResult::done;
    }
    return set_.messages.under_way() ? StepResult::polling : StepResult::waiting;
}

void SplitsTask::tell_host() {
    std::byte* cells = set_.cells_of(set_.rank);
    for (const std::uint32_t rank : set_.hosts.ranks_of(set_.hosts.my_host())) {
        std::memcpy(cells, &to_[rank], kBytes);
        cells += kBytes;
    }
    set_.publish(set_.mine().staged, set_.chunks + 1);
    told_ = true;
}

void SplitsTask::learn_from_host() {
    for (std::uint32_t member = 0; member < set_.members; ++member) {
        const std::uint32_t rank = set_.hosts.ranks_of(set_.hosts.my_host())[member];
        std::memcpy(&from_[rank], set_.cells_of(member) + kBytes * set_.rank, kBytes);
    }
    learnt_ = true;
}

}  // namespace rueda::collectives
