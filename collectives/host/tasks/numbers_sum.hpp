// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The Rueda authors
#pragma once

#include <cstdint>
#include <span>

#include "collectives/host/tasks/host_set.hpp"

namespace rueda::collectives {

/// Sums some float64 numbers over the first ranks of a host, through the cells. The numbers are added in rank order,
/// and every rank gets the sums. This is a phase of a task in which all ranks of the host take part.
///
/// Threads: the thread that drives progress.
class NumbersSum {
public:
    explicit NumbersSum(HostSet& set) : set_(set) {}

    /// Begins the phase. Its chunks are numbered from `first` on within the batch. The first `givers` ranks contribute
    /// numbers. `numbers` holds this rank's numbers and later the sums; it must stay valid until is_done(). With
    /// `keeps_cells`, this object does not report that its cells are free again. The caller reports this later, because
    /// it still needs other cells.
    void begin(std::span<double> numbers, std::uint32_t givers, std::uint64_t first, bool keeps_cells);
    /// Does one action; returns false if it could do nothing. `is_free(number)` must return whether the cell of chunk
    /// `number` may be written.
    template <class IsFree>
    bool act(IsFree&& is_free) {
        if (staged_ < chunks_ && (keeps_cells_ || staged_ < taken_ + set_.arena->plan().cells_per_rank) &&
            is_free(first_ + staged_)) {
            stage();
            return true;
        }
        if (taken_ < staged_ && set_.all_reached(&Progress::staged, number(taken_) + 1)) {
            take();
            return true;
        }
        return false;
    }
    [[nodiscard]] bool is_done() const { return taken_ == chunks_; }
    /// The number of chunks that this many numbers need.
    [[nodiscard]] static std::uint64_t chunks_of(const HostSet& set, std::uint64_t numbers);
    [[nodiscard]] std::uint64_t chunks() const { return chunks_; }

private:
    [[nodiscard]] std::uint64_t number(std::uint64_t chunk) const { return set_.chunks + first_ + chunk; }
    [[nodiscard]] std::span<double> numbers_of(std::uint64_t chunk) const;
    void stage();
    void take();

    HostSet& set_;
    std::span<double> numbers_;
    std::uint32_t givers_ = 0;
    std::uint64_t first_ = 0;
    std::uint64_t chunks_ = 0;
    std::uint64_t staged_ = 0;
    std::uint64_t taken_ = 0;
    bool keeps_cells_ = false;
};

}  // namespace rueda::collectives
