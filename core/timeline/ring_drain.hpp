// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The Rueda authors
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include "base/recorder/rank_recorder.hpp"
#include "base/recorder/recorder_reader.hpp"
#include "base/timeline/timeline_operation.hpp"

namespace rueda::core {

/// Reads the new records in the flight recorder of one rank, again and again. Each record is returned once, when its
/// operation has ended.
class RingDrain {
public:
    /// Reads operations from number `first` on. `offset_ns` is added to the recorder's times.
    RingDrain(std::int32_t rank, std::int64_t offset_ns, std::uint64_t first)
        : rank_(rank), offset_ns_(offset_ns), next_(first) {}

    /// Checks the operations that had not ended when this object last read their records. Appends to `ended` the
    /// operations that have ended since then.
    void revisit(const base::RecorderReader& reader, std::vector<base::TimelineOperation>& ended);
    /// Reads up to `most` new records, and appends to `ended` the operations that have ended. Returns the number of
    /// records that it has read.
    std::size_t advance(const base::RecorderReader& reader, std::size_t most,
                        std::vector<base::TimelineOperation>& ended);
    /// Appends the operations that have not ended, if their records are still in the ring.
    void append_open(const base::RecorderReader& reader, std::vector<base::TimelineOperation>& open) const;

    [[nodiscard]] std::int32_t rank() const { return rank_; }
    /// Returns how many records were overwritten before they were read, since the last call of this function.
    [[nodiscard]] std::uint64_t take_lost();

private:
    enum class Look : std::uint8_t { ended, open, lost };
    Look look(const base::RecorderReader& reader, std::uint64_t number, std::vector<base::TimelineOperation>& ended);
    void add(base::RecordedOperation record, std::vector<base::TimelineOperation>& to) const;

    std::int32_t rank_;
    std::int64_t offset_ns_;
    std::uint64_t next_;
    // The numbers of the operations that had not ended, in ascending order. At most as many as the ring has records.
    std::vector<std::uint64_t> open_;
    std::uint64_t lost_ = 0;
};

}  // namespace rueda::core
