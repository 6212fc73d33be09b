// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The Rueda authors
#pragma once

#include <cstdint>
#include <span>

#include "collectives/host/host_set.hpp"

namespace rueda::collectives {

/// Sums of some float64 numbers over the first ranks of a host, through the cells: everybody gets them, added in rank
/// order. A phase of a task; all ranks of the host take part.
///
/// Threads: whoever drives the engine.
class NumbersSum {
public:
    explicit NumbersSum(HostSet& set) : set_(set) {}

    /// The chunks of this phase have the numbers from `first` on, of the batch. `givers`: how many ranks give numbers.
    /// `numbers`: what this rank gives, and then the sums; it stays until is_done(). With `keeps_cells` nothing is said
    /// of the cells being free again: somebody else does, of these and of others that are still needed.
    void begin(std::span<double> numbers, std::uint32_t givers, std::uint64_t first, bool keeps_cells);
    /// One action; false: nothing could be done. `is_free(number)`: may that cell be written?
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
    /// How many of so many numbers.
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
