// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The Rueda authors
/// @file
/// Functions on the gradients of all parameters together. They compute the norm, clip the gradients, and check whether
/// the gradients are finite.
#pragma once

#include <span>

#include "rueda/rueda.hpp"
#include "rueda/training/optimizer.hpp"

namespace rueda::training {

/// Sets all gradients to 0.
RUEDA_API void zero_gradients(std::span<const Parameter> parameters);

/// Returns the norm (the root of the sum of all squares) of the gradients on this rank, computed in float64. After an
/// allreduce all ranks have the same gradients, so this is the global norm, with the same bits on all ranks. The norm
/// is finite if, and only if, all gradients are finite.
[[nodiscard]] RUEDA_API double gradient_norm(std::span<const Parameter> parameters);

/// Returns the norm of gradients that are divided among the members of `set`, so that each member has different
/// parameters. Collective: all members must call this function. All members get the same bits.
[[nodiscard]] RUEDA_API double sharded_gradient_norm(std::span<const Parameter> parameters, ProcessSet set = world());

/// Returns the factor that clips gradients with the norm `norm` to the norm `max_norm`: 1 if norm ≤ max_norm, otherwise
/// max_norm / norm (Pascanu et al. 2013, arXiv:1211.5063, algorithm 1). Pass the factor to Optimizer::step(). If the
/// gradients still contain a factor, first multiply the norm by the inverse of this factor. For a loss scale, this
/// inverse is LossScale::gradient_factor(). Throws InvalidArgument if `norm` is negative or not finite, or if
/// `max_norm` is not above 0. (LossScale can skip a step whose norm is not finite.)
[[nodiscard]] RUEDA_API double clip_factor(double norm, double max_norm);

/// Returns whether `value` is true on all members of `set`. Collective: all members must call this function.
[[nodiscard]] RUEDA_API bool true_on_all_ranks(bool value, ProcessSet set = world());

}  // namespace rueda::training
