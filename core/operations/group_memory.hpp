// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The Rueda authors
#pragma once

#include <cstddef>
#include <optional>

#include "rueda/rueda.h"

namespace rueda::core {

/// The numbers of two members of a group, counted from 0. These two members are in conflict: one of them writes to
/// memory that the other member reads or writes.
struct MembersInConflict {
    std::size_t first = 0;
    std::size_t second = 0;
};

/// Finds two members in conflict. The members of a group may be executed in any order and in parts. So no member may
/// write to memory that another member uses. Inputs may overlap each other. The tensors must have been checked. `out`
/// may be null if Rueda allocates the outputs.
[[nodiscard]] std::optional<MembersInConflict> find_members_in_conflict(const rueda_tensor* in, const rueda_tensor* out,
                                                                        std::size_t count);

}  // namespace rueda::core
