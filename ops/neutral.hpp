// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The Rueda authors
#pragma once

#include <cstddef>

#include "ops/reduce.hpp"

namespace rueda::ops {

/// `count` elements that change nothing where reduce() combines them with others: for who has nothing to give, and must
/// send something.
///
///     sum, average   −0 (which, unlike +0, leaves a −0 as it is), integers 0
///     min, max       the largest, the lowest value: an infinity; of bool true, false
///     product        1
///
/// `count` elements of the dtype are written to `destination`, of any alignment. A reduction that is_defined(). No
/// factors are applied.
/// Threads: any.
void fill_neutral(const Reduction& reduction, std::byte* destination, std::size_t count);

}  // namespace rueda::ops
