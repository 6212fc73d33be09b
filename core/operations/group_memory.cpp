// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The Rueda authors
#include "core/operations/group_memory.hpp"

#include <algorithm>
#include <array>
#include <cstdint>
#include <span>
#include <utility>
#include <vector>

#include "rueda/types.hpp"

namespace rueda::core {
namespace {

struct Extent {
    std::uintptr_t begin;
    std::uintptr_t end;
    std::size_t member;
    bool written;
};

void add(std::vector<Extent>& extents, const rueda_tensor& tensor, std::size_t member, bool written) {
    const std::span shape(tensor.shape, static_cast<std::size_t>(tensor.ndim));
    const std::uint64_t bytes =
        detail::count_of_elements(shape).value_or(0) * size_of(static_cast<DType>(tensor.dtype));
    if (bytes > 0) {
        const auto begin = reinterpret_cast<std::uintptr_t>(tensor.data);
        extents.push_back({begin, begin + bytes, member, written});
    }
}

/// Helps to find overlaps in a list of extents that is sorted by their beginnings. It keeps only two of the extents so
/// far: extent A ends last of all, and extent B ends last among the extents of the other members. It is enough to
/// compare the next extent with A and B. If the next extent overlaps any earlier extent of another member, A or B also
/// belongs to another member and ends after the beginning of the next extent.
class Furthest {
public:
    [[nodiscard]] const Extent* overlapping(const Extent& extent) const {
        for (const Extent* one : reach_) {
            if (one != nullptr && one->member != extent.member && extent.begin < one->end) {
                return one;
            }
        }
        return nullptr;
    }
    void add(const Extent& extent) {
        if (reach_[0] == nullptr || reach_[0]->member == extent.member) {
            reach_[0] = reach_[0] == nullptr || extent.end > reach_[0]->end ? &extent : reach_[0];
        } else if (extent.end > reach_[0]->end) {
            reach_[1] = std::exchange(reach_[0], &extent);
        } else if (reach_[1] == nullptr || extent.end > reach_[1]->end) {
            reach_[1] = &extent;
        }
    }

private:
    std::array<const Extent*, 2> reach_{};
};

}  // namespace

std::optional<MembersInConflict> find_members_in_conflict(const rueda_tensor* in, const rueda_tensor* out,
                                                          std::size_t count) {
    if (out == nullptr) {
        return std::nullopt;
    }
    std::vector<Extent> extents;
    extents.reserve(2 * count);
    for (std::size_t i = 0; i < count; ++i) {
        add(extents, in[i], i, false);
        add(extents, out[i], i, true);
    }
    std::sort(extents.begin(), extents.end(), [](const Extent& a, const Extent& b) { return a.begin < b.begin; });
    Furthest written;
    Furthest read;
    for (const Extent& extent : extents) {
        const Extent* other = written.overlapping(extent);
        other = other == nullptr && extent.written ? read.overlapping(extent) : other;
        if (other != nullptr) {
            return MembersInConflict{std::min(other->member, extent.member), std::max(other->member, extent.member)};
        }
        (extent.written ? written : read).add(extent);
    }
    return std::nullopt;
}

}  // namespace rueda::core
