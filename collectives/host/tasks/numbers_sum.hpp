// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The Rueda authors
#pragma once

#include <cstdint>
#include <span>

#include "collectives/host/tasks/host_set.hpp"

namespace rueda::collectives {

/// Sums float64 numbers over the first ranks of a host, through the ranks' buffers in shared memory (cells). The
/// numbers are added in rank order, and every rank gets the sums. This class is one phase of a task, and all ranks of
/// the host must take part.
///
/// Threads: only the thread that steps this rank's tasks ("drives progress") may call these functions.
class NumbersSum {
public:
    explicit NumbersSum(HostSet& set) : set_(set) {}

    /// Begins the phase. `first` is the number of its first chunk within the batch. The first `givers` ranks contribute
    /// numbers. `numbers` holds this rank's numbers and later the sums, and must stay valid until is_done(). If
    /// `keeps_cells` is true, the caller must later report that the buffers in shared memory are free again. Otherwise
    /// this object reports it.
    void begin(std::span<double> numbers, std::uint32_t givers, std::uint64_t first, bool keeps_cells);
    /// Does one action; returns false if it could do nothing. `is_free(number)` must return whether this rank may write
    /// to its buffer in shared memory for chunk `number`.
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
    /// How many chunks are needed for `numbers` numbers.
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
