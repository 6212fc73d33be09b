// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The Rueda authors
#include "collectives/host/tasks/numbers_sum.hpp"

#include <algorithm>
#include <cstring>

namespace rueda::collectives {
namespace {

std::uint64_t numbers_in_cell(const HostSet& set) { return set.arena->plan().cell_bytes / sizeof(double); }

}  // namespace

std::uint64_t NumbersSum::chunks_of(const HostSet& set, std::uint64_t numbers) {
    const std::uint64_t in_cell = numbers_in_cell(set);
    return set.members > 1 ? (numbers + in_cell - 1) / in_cell : 0;
}

void NumbersSum::begin(std::span<double> numbers, std::uint32_t givers, std::uint64_t first, bool keeps_cells) {
    numbers_ = numbers;
    givers_ = givers;
    first_ = first;
    keeps_cells_ = keeps_cells;
    chunks_ = chunks_of(set_, numbers.size());
    staged_ = taken_ = 0;
}

std::span<double> NumbersSum::numbers_of(std::uint64_t chunk) const {
    const std::uint64_t in_cell = numbers_in_cell(set_);
    return numbers_.subspan(chunk * in_cell, std::min(in_cell, numbers_.size() - chunk * in_cell));
}

void NumbersSum::stage() {
    const std::span<const double> mine = numbers_of(staged_);
    if (set_.rank < givers_) {
        std::memcpy(set_.arena->cell(set_.rank, number(staged_)), mine.data(), mine.size_bytes());
    }
    ++staged_;
    set_.publish(set_.mine().staged, number(staged_));
}

/// Adds the numbers in rank order, beginning with the lowest rank. This rank's numbers are read from its buffer in
/// shared memory, like those of the other ranks.
void NumbersSum::take() {
    const std::span<double> sums = numbers_of(taken_);
    std::memcpy(sums.data(), set_.arena->cell(0, number(taken_)), sums.size_bytes());
    for (std::uint32_t giver = 1; giver < givers_; ++giver) {
        const std::byte* const cell = set_.arena->cell(giver, number(taken_));
        for (std::size_t i = 0; i < sums.size(); ++i) {
            double other = 0;
            std::memcpy(&other, cell + i * sizeof(other), sizeof(other));
            sums[i] += other;
        }
    }
    ++taken_;
    if (!keeps_cells_) {
        // The other ranks load `fetched` before they reuse their buffers.
        set_.publish(set_.mine().fetched, number(taken_));
    }
}

}  // namespace rueda::collectives
