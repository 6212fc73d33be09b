// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The Rueda authors
#pragma once

#include <atomic>
#include <cstdint>

#include "core/negotiation/calling.hpp"
#include "core/process_set/common/set_view.hpp"

namespace rueda::core {

/// The position up to which this rank has read the log.
///
/// Threads: the thread that drives progress advances the cursor. Any thread may read the cursor, but may get an older
/// value.
class LogCursor {
public:
    explicit LogCursor(const SetView& view) : memory_(view.memory), rank_(view.rank) {}

    /// The log position of the next entry to read.
    [[nodiscard]] std::uint64_t position() const { return next_.load(std::memory_order_relaxed); }
    void advance_to(std::uint64_t position) {
        next_.store(position, std::memory_order_relaxed);
        advance_cursor(memory_, rank_, position);
    }
    /// Moves the cursor past a log entry after which this rank may announce nothing more, either in one slot or in all
    /// slots. See end_announcements().
    void advance_behind_end(std::uint64_t position) {
        next_.store(position, std::memory_order_relaxed);
        end_announcements(memory_, rank_, position);
    }

private:
    const NegotiationMemory<base::StdAtomics>& memory_;
    std::uint32_t rank_;
    std::atomic<std::uint64_t> next_{0};
};

}  // namespace rueda::core
