// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The Rueda authors
#pragma once

#include <algorithm>
#include <cstdint>

#include "base/assert.hpp"

namespace rueda::collectives {

/// Rows [begin, begin + count) of a tensor, counted along its first dimension.
struct Rows {
    std::int64_t begin = 0;
    std::int64_t count = 0;
};

/// Returns the rows of a reducescatter's result that belong to `member`. The rows are divided as equally as possible.
/// If they cannot be divided equally, the first members get one row more.
[[nodiscard]] constexpr Rows rows_of_member(std::int64_t rows, std::uint32_t member, std::uint32_t members) {
    RUEDA_ASSERT(members > 0);
    const std::int64_t least = rows / members;
    const std::int64_t more = rows % members;
    return {member * least + std::min<std::int64_t>(member, more), least + (member < more ? 1 : 0)};
}

}  // namespace rueda::collectives
