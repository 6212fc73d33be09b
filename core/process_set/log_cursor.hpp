// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The Rueda authors
#pragma once

#include <atomic>
#include <cstdint>

#include "core/process_set/set_view.hpp"

namespace rueda::core {

/// How far this rank has read the log.
///
/// Threads: the thread that drives progress advances the cursor. Any thread may read it, as a hint.
class LogCursor {
public:
    explicit LogCursor(const SetView& view) : published_(view.memory.cursor(view.rank).position) {}

    /// The position of the next entry.
    [[nodiscard]] std::uint64_t position() const { return next_.load(std::memory_order_relaxed); }
    /// Partner of the published position: the registrar, which reuses a slot when all members have read past its
    /// retirement.
    void advance_to(std::uint64_t position, std::memory_order order = std::memory_order_release) {
        next_.store(position, std::memory_order_relaxed);
        published_.store(position, order);
    }

private:
    base::StdAtomics::Atomic<std::uint64_t>& published_;  // in the arena
    std::atomic<std::uint64_t> next_{0};
};

}  // namespace rueda::core
