// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The Rueda authors
#pragma once

#include <algorithm>
#include <cstdint>
#include <vector>

#include "base/shared_memory/atomics.hpp"
#include "collectives/host/arena/segment_map.hpp"

namespace rueda::collectives {

/// The bytes that one rank processes in an operation: a part of each tensor. The parts lie one after the other in a
/// virtual range of bytes. Each part begins at a multiple of a cache line. The positions where a tensor is cut do not
/// depend on the other tensors. (A SegmentMap, in contrast, divides the batch as a whole.) Threads: plain data without
/// synchronisation.
class PartMap {
public:
    struct Part {
        std::uint32_t segment = 0;
        Range range;              ///< range within the tensor; it begins at a multiple of a cache line
        std::uint64_t begin = 0;  ///< position in the virtual range
        std::uint64_t home = 0;   ///< position in the virtual range of the map from which choose() copied the part;
                                  ///< otherwise the same as `begin`
    };

    void clear() {
        parts_.clear();
        end_ = 0;
    }
    /// Adds a part. An empty part is not added.
    void add(std::uint32_t segment, Range range) { add({segment, range, end_, end_}); }
    /// Replaces the parts by those parts of `all` for which `choose(segment)` returns true.
    template <class Choose>
    void choose(const PartMap& all, Choose&& choose) {
        clear();
        for (const Part& part : all.parts_) {
            if (choose(part.segment)) {
                add({part.segment, part.range, end_, part.begin});
            }
        }
    }
    /// The length of the virtual range in bytes, a multiple of a cache line.
    [[nodiscard]] std::uint64_t bytes() const { return end_; }

    /// Calls f(part, offset in the tensor, bytes, offset in the virtual range) for each piece of `range`.
    template <class F>
    void for_each_piece(Range range, F&& f) const {
        auto part = std::upper_bound(parts_.begin(), parts_.end(), range.begin,
                                     [](std::uint64_t offset, const Part& p) { return offset < p.begin; });
        for (part -= part == parts_.begin() ? 0 : 1; part != parts_.end() && part->begin < range.end; ++part) {
            const std::uint64_t begin = std::max(range.begin, part->begin);
            const std::uint64_t end = std::min(range.end, part->begin + part->range.bytes());
            if (begin < end) {
                f(*part, part->range.begin + (begin - part->begin), end - begin, begin);
            }
        }
    }

private:
    void add(const Part& part) {
        if (part.range.bytes() > 0) {
            parts_.push_back(part);
            end_ += (part.range.bytes() + base::kCacheLine - 1) / base::kCacheLine * base::kCacheLine;
        }
    }

    std::vector<Part> parts_;
    std::uint64_t end_ = 0;
};

}  // namespace rueda::collectives
