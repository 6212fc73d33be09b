// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The Rueda authors
#pragma once

#include <cstdint>
#include <span>

#include "base/recorder/recorder_writer.hpp"
#include "base/status.hpp"
#include "core/pending/tensor_table.hpp"
#include "core/process_set/common/set_view.hpp"

namespace rueda::core {

/// Records the operations of a set in the flight recorder of this rank (docs/design/0016-recorder.md).
///
/// Threads: submitted() under the enqueue lock; the rest in the thread that drives progress, or where a failed
/// operation ends.
class Recording {
public:
    explicit Recording(const SetView& view);

    /// The operation of `entry` is pending from now on, as the `generation`-th announcement of its slot.
    void submitted(TensorEntry& entry, std::uint64_t generation, bool is_blocking);
    /// A batch that begins at `position` of the log is executed from now on. Returns the time stamp.
    std::uint64_t started_batch(std::span<TensorEntry* const> entries, std::uint64_t position) const;
    /// An operation that was announced directly is executed from `ticks` on.
    void started_directly(const TensorEntry& entry, std::uint64_t ticks) const { writer_.start(entry.recorded, ticks); }
    /// The time stamp for the end of an operation that started at `started` and has just ended. A short one takes less
    /// time than a look at the clock is worth, and ends when it started.
    [[nodiscard]] static std::uint64_t end_of(const TensorEntry& entry, std::uint64_t started) {
        return entry.request.bytes() <= kShortBytes ? started : base::ticks_now();
    }
    void ended(const TensorEntry& entry, ErrorCode code, std::uint64_t ticks) const {
        writer_.end(entry.recorded, ticks, code);
    }
    /// The operation of `entry` was executed successfully between these times.
    void executed(const TensorEntry& entry, std::uint64_t started, std::uint64_t ended) const {
        writer_.start_and_end(entry.recorded, started, ended);
    }

private:
    /// It takes less than a microsecond to combine the inputs of two ranks.
    static constexpr std::uint64_t kShortBytes = 4096;

    const SetView& view_;
    base::RecorderWriter writer_;
    std::int32_t set_id_;
    std::uint64_t submitted_ = 0;  // operations of this set so far
};

}  // namespace rueda::core
