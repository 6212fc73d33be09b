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

/// Reads what is new in the flight recorder of one rank, again and again. It gives out each record once, when the
/// operation has ended.
class RingDrain {
public:
    /// `offset_ns`: what to add to the recorder's times. `first`: the number of the first operation to read.
    RingDrain(std::int32_t rank, std::int64_t offset_ns, std::uint64_t first)
        : rank_(rank), offset_ns_(offset_ns), next_(first) {}

    /// Looks again at the operations that had not ended. Appends those that have.
    void revisit(const base::RecorderReader& reader, std::vector<base::TimelineOperation>& ended);
    /// Looks at new records, at most `most`. Returns how many it has looked at.
    std::size_t advance(const base::RecorderReader& reader, std::size_t most,
                        std::vector<base::TimelineOperation>& ended);
    /// Appends the operations that have not ended, as far as the ring has them.
    void append_open(const base::RecorderReader& reader, std::vector<base::TimelineOperation>& open) const;

    [[nodiscard]] std::int32_t rank() const { return rank_; }
    /// The number of records that were overwritten before they were read, since the last call.
    [[nodiscard]] std::uint64_t take_lost();

private:
    enum class Look : std::uint8_t { ended, open, lost };
    Look look(const base::RecorderReader& reader, std::uint64_t number, std::vector<base::TimelineOperation>& ended);
    void add(base::RecordedOperation record, std::vector<base::TimelineOperation>& to) const;

    std::int32_t rank_;
    std::int64_t offset_ns_;
    std::uint64_t next_;
    std::vector<std::uint64_t> open_;  // ascending; at most as many as the ring has
    std::uint64_t lost_ = 0;
};

}  // namespace rueda::core
