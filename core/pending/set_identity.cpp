// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The Rueda authors
#include "core/pending/set_identity.hpp"

#include <fmt/format.h>

#include <algorithm>

#include "base/text.hpp"

namespace rueda::core {

std::optional<int> SetIdentity::member_of(int job_rank) const {
    const auto found = std::lower_bound(ranks.begin(), ranks.end(), job_rank);
    return found != ranks.end() && *found == job_rank ? std::optional(static_cast<int>(found - ranks.begin()))
                                                      : std::nullopt;
}

std::string SetIdentity::describe() const { return fmt::format("process set {} ({})", id, base::format_ranks(ranks)); }

}  // namespace rueda::core
