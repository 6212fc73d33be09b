// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The Rueda authors
#pragma once

#include <cstdint>
#include <random>
#include <vector>

#include "tests/conformance/work.hpp"

namespace rueda::tests {

/// An operation that all ranks draw. The draw does not depend on the rank.
struct Draw {
    Work work;
    bool blocks = false;
    bool is_mismatch = false;  ///< if true, the ranks do not run `work`, but an allreduce with different shapes
};

/// Draws an operation and the number of its process set. `sets` is how many process sets there are.
[[nodiscard]] Draw draw_operation(std::mt19937& random, std::size_t sets);

/// Draws different subsets of 0 … size − 1. No subset is empty, and none contains all numbers. If there are fewer than
/// `count` such subsets, returns fewer.
[[nodiscard]] std::vector<std::vector<std::int32_t>> draw_sets(std::mt19937& random, int size, std::size_t count);

}  // namespace rueda::tests
