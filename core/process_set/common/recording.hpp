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

/// Records the operations of a process set in this rank's flight recorder, a ring of its last operations
/// (docs/design/0016-recorder.md).
///
/// Threads: submitted() runs under the enqueue lock. The other functions run in the thread that drives progress, or in
/// the thread that ends a failed operation.
class Recording {
public:
    explicit Recording(const SetView& view);

    /// Records that the operation of `entry` is pending. For an operation without a name, `entry.generation` must
    /// already be the generation of this call.
    void submitted(TensorEntry& entry, bool is_blocking);
    /// Records that the operations of a batch start. `position` is the batch's first log position. Returns the time
    /// stamp.
    std::uint64_t started_batch(std::span<TensorEntry* const> entries, std::uint64_t position) const;
    /// Records that a directly announced operation starts. Returns the time stamp.
    std::uint64_t started_directly(const TensorEntry& entry) const {
        const std::uint64_t now = base::ticks_now();
        writer_.start(entry.recorded, now);
        return now;
    }
    /// The time stamp for the end of an operation that started at `started` and has just ended. Reading the clock would
    /// cost too much for a short operation, so it gets its start time.
    [[nodiscard]] static std::uint64_t end_of(const TensorEntry& entry, std::uint64_t started) {
        return entry.request.bytes() <= kShortBytes ? started : base::ticks_now();
    }
    void ended(const TensorEntry& entry, ErrorCode code, std::uint64_t ticks) const {
        writer_.end(entry.recorded, ticks, code);
    }

private:
    /// Combining this many bytes of two ranks takes less than a microsecond.
    static constexpr std::uint64_t kShortBytes = 4096;

    const SetView& view_;
    base::RecorderWriter writer_;
    std::int32_t set_id_;
    std::uint64_t submitted_ = 0;  // the number of operations of this set so far
};

}  // namespace rueda::core
