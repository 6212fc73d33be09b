// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The Rueda authors
#pragma once

#include "ops/reduce.hpp"

namespace rueda::collectives {

/// A reduction over ranks of several hosts, of which each makes a partial result of the tensor's dtype.
///
/// The factor before belongs to the inputs; the one after, and the division of an average, to the result, and are
/// applied once. But of a sum or an average of float16, whose range ends at 65504, they are applied to the partials
/// (ops::levels_of). Partials of integers wrap: an average is exact as long as no host's sum leaves the dtype's range,
/// nor, of a small tensor, that of several hosts.
struct PartialReduction {
    ops::Reduction within;   ///< a host's inputs, by rank
    ops::Reduction between;  ///< partials, to another partial
    ops::Reduction last;     ///< partials, to the result
};

[[nodiscard]] PartialReduction in_partials(const ops::Reduction& reduction);

}  // namespace rueda::collectives
