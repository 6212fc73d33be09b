// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The Rueda authors
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

namespace rueda::core {

/// The name of the operation in which the ranks agree on changes of the process sets. Stall reports show the functions
/// that the callers have called, and not this name.
inline constexpr const char* kSetChangeName = "rueda.process_sets";

/// Identifies a process set of the job. Member r of the set is rank ranks[r] of the job.
struct SetIdentity {
    /// 0 is the world. A number is never used again, not even in later jobs of the same processes.
    std::int32_t id = 0;
    std::vector<int> ranks;  ///< ranks of the job, ascending

    [[nodiscard]] bool is_world() const { return id == 0; }
    /// Converts a rank of the job into its number in the set. Empty if the rank is not a member.
    [[nodiscard]] std::optional<int> member_of(int job_rank) const;
    /// Returns a text such as "process set 2 (ranks 0, 3)".
    [[nodiscard]] std::string describe() const;
    /// Error messages about this set begin with this text; "" for the world.
    [[nodiscard]] std::string title() const { return is_world() ? "" : describe() + ": "; }
};

}  // namespace rueda::core
