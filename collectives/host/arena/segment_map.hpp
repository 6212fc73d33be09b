// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The Rueda authors
#pragma once

#include <algorithm>
#include <cstdint>
#include <vector>

#include "base/shared_memory/atomics.hpp"

namespace rueda::collectives {

/// The half-open range [begin, end).
struct Range {
    std::uint64_t begin = 0;
    std::uint64_t end = 0;
    [[nodiscard]] std::uint64_t bytes() const { return end - begin; }
};

/// Lays the segments (tensors) of a batch one after the other in a virtual range of bytes. Each segment begins at a
/// multiple of a cache line, so a cut at a cache line never splits an element. The batch can therefore be cut at any
/// cache line. The map depends only on sizes, so every rank computes the same map. Threads: plain data without
/// synchronisation.
class SegmentMap {
public:
    void clear() {
        segments_.clear();
        end_ = 0;
    }
    void add(std::uint32_t segment, std::uint64_t bytes) {
        segments_.push_back({segment, end_, bytes});
        end_ += (bytes + base::kCacheLine - 1) / base::kCacheLine * base::kCacheLine;
    }
    /// The length of the virtual range in bytes, a multiple of a cache line.
    [[nodiscard]] std::uint64_t bytes() const { return end_; }

    /// Calls f(segment, offset in the segment, bytes, offset in the virtual range) for each piece of `range`. A segment
    /// is a tensor of the batch.
    template <class F>
    void for_each_piece(Range range, F&& f) const {
        auto entry = std::upper_bound(segments_.begin(), segments_.end(), range.begin,
                                      [](std::uint64_t offset, const Entry& e) { return offset < e.begin; });
        for (entry -= entry == segments_.begin() ? 0 : 1; entry != segments_.end() && entry->begin < range.end;
             ++entry) {
            const std::uint64_t begin = std::max(range.begin, entry->begin);
            const std::uint64_t end = std::min(range.end, entry->begin + entry->bytes);
            if (begin < end) {
                f(entry->segment, begin - entry->begin, end - begin, begin);
            }
        }
    }

    /// Returns the part of `range` that belongs to `member`. The parts of all members are contiguous, begin and end at
    /// cache lines, and are otherwise as equal as possible.
    [[nodiscard]] static Range share(Range range, std::uint32_t member, std::uint32_t members) {
        const std::uint64_t lines = (range.bytes() + base::kCacheLine - 1) / base::kCacheLine;
        const auto cut = [&](std::uint64_t m) {
            return std::min(range.end, range.begin + lines * m / members * base::kCacheLine);
        };
        return {cut(member), cut(std::uint64_t{member} + 1)};
    }

private:
    struct Entry {
        std::uint32_t segment;
        std::uint64_t begin;
        std::uint64_t bytes;
    };
    std::vector<Entry> segments_;
    std::uint64_t end_ = 0;
};

}  // namespace rueda::collectives
