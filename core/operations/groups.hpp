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

/// The names of a group's members, and the operation that announces the number of members. Pure functions.
namespace rueda::core {

/// The largest number of members, which is larger than the number of tensors of any model. Numbers from other processes
/// are checked against this limit.
inline constexpr std::size_t kMostGroupMembers = 1'000'000;

/// Returns the name of a member, for example "layer1_2of3" for the second of three members. `index` counts from 0.
[[nodiscard]] std::string name_of_member(std::string_view group, std::size_t index, std::size_t count);
/// Fills in the operation in which the ranks compare their numbers of members. The operation has the group's own name,
/// so Rueda notices it if a rank uses this name for another operation. `request` must be empty.
void make_count(std::size_t count, std::int32_t process_set, Request& request);

/// Returns a text such as "ranks 0, 1: 3; rank 2: 2", which gives each rank's number of members. The number of the
/// lowest rank comes first.
[[nodiscard]] std::string describe_counts(const std::map<std::int64_t, std::vector<std::int32_t>>& ranks_of);

}  // namespace rueda::core
