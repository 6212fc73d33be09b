// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The Rueda authors
#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <string>
#include <string_view>
#include <vector>

#include "core/pending/tensor_table.hpp"

/// Makes the names of a group's members, and the operation that announces the number of members. Pure functions.
namespace rueda::core {

/// The maximum number of members of a group. No model has so many tensors. Numbers from other processes are checked
/// against this limit.
inline constexpr std::size_t kMostGroupMembers = 1'000'000;

/// Returns the name of a member, for example "layer1_2of3" for the second of three members. `index` counts from 0.
[[nodiscard]] std::string name_of_member(std::string_view group, std::size_t index, std::size_t count);
/// Fills in the operation in which the ranks compare how many members their groups have. This operation has the group's
/// own name, so Rueda notices if a rank uses the name for another operation. `request` must be empty.
void make_count(std::size_t count, std::int32_t process_set, Request& request);

/// Returns a text such as "ranks 0, 1: 3; rank 2: 2". It gives the number of members on each rank, and begins with the
/// lowest rank.
[[nodiscard]] std::string describe_counts(const std::map<std::int64_t, std::vector<std::int32_t>>& ranks_of);

}  // namespace rueda::core
