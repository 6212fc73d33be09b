// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The Rueda authors
#pragma once

#include <cstddef>
#include <optional>

#include "rueda/rueda.h"

namespace rueda::core {

/// Two members of a group, from 0 on, one of which writes where the other one reads or writes.
struct MembersInConflict {
    std::size_t first = 0;
    std::size_t second = 0;
};

/// Members are executed in any order and in parts, so what one writes must be nobody else's; inputs may overlap. Of
/// tensors that were checked; `out` may be null: Rueda makes them.
[[nodiscard]] std::optional<MembersInConflict> find_members_in_conflict(const rueda_tensor* in, const rueda_tensor* out,
                                                                        std::size_t count);

}  // namespace rueda::core
