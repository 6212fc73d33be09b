// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The Rueda authors
#include "core/operations/groups.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <utility>

#include "base/text.hpp"
#include "collectives/operation.hpp"

namespace rueda::core {
std::string name_of_member(std::string_view group, std::size_t index, std::size_t count) {
    return fmt::format("{}_{}of{}", group, index + 1, count);
}

void make_count(std::size_t count, std::int32_t process_set, Request& request) {
    request.metadata.operation = static_cast<std::uint8_t>(collectives::Operation::group);
    request.metadata.process_set = process_set;
    request.metadata.ndim = 1;
    request.metadata.shape[0] =
        // The number of members is announced as the first dimension of the operation: the first dimension may differ
        // between ranks, and every rank learns the first dimensions of all ranks.
        Metadata::kAnyExtent;
    request.first_dimension = static_cast<std::int64_t>(count);
}

std::string describe_counts(const std::map<std::int64_t, std::vector<std::int32_t>>& ranks_of) {
    std::vector<std::pair<std::int64_t, std::vector<std::int32_t>>> counts(ranks_of.begin(), ranks_of.end());
    std::sort(counts.begin(), counts.end(),
              [](const auto& a, const auto& b) { return a.second.front() < b.second.front(); });
    std::string text;
    for (const auto& [count, ranks] : counts) {
        text += fmt::format("{}{}: {}", text.empty() ? "" : "; ", base::format_ranks(ranks), count);
    }
    return text;
}

}  // namespace rueda::core
