// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The Rueda authors
#pragma once

#include <cstddef>

#include "ops/reduce.hpp"

namespace rueda::ops {

/// Writes `count` neutral elements. reduce() does not change an element when it combines the element with a neutral
/// one. A rank sends neutral elements if it has nothing to contribute but must send something.
///
///     sum, average   −0 (unlike +0, it leaves a −0 unchanged); integers 0
///     min            the largest value: +infinity; for float8_e4m3fn, which has none, 448; for bool true
///     max            the lowest value: −infinity; for float8_e4m3fn −448; for bool false
///     product        1
///
/// The elements have the reduction's dtype and are written to `destination`, which may have any alignment. The
/// reduction must satisfy is_defined(). No factors are applied.
///
/// Threads: any thread may call these functions.
void fill_neutral(const Reduction& reduction, std::byte* destination, std::size_t count);

}  // namespace rueda::ops
