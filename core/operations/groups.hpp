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

/// What a group's members are called, and what is announced beside them. Pure.
namespace rueda::core {

/// More than a model has tensors; what other processes say is compared with it.
inline constexpr std::size_t kMostGroupMembers = 1'000'000;

/// "layer1_2of3": the second of three; `index` from 0.
[[nodiscard]] std::string name_of_member(std::string_view group, std::size_t index, std::size_t count);
/// What says how many members this rank has: announced under the group's own name, so that whatever else another rank
/// means by that name is found out. `request` is fresh.
void make_count(std::size_t count, std::int32_t process_set, Request& request);

/// "ranks 0, 1: 3; rank 2: 2", those of the lowest rank first.
[[nodiscard]] std::string describe_counts(const std::map<std::int64_t, std::vector<std::int32_t>>& ranks_of);

}  // namespace rueda::core
