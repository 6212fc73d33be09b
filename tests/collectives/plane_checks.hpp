// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The Rueda authors
#pragma once

#include <string>

#include "collectives/control_plane.hpp"

namespace rueda::tests {

/// Returns `count` bytes whose values depend on `seed`.
[[nodiscard]] collectives::Bytes pattern(std::size_t count, int seed);

/// Checks what every control plane must do. All ranks call this function at the same time. Returns "ok" or the error.
/// Messages have different sizes: 0 bytes on rank 0, and up to `longest` bytes on the other ranks.
[[nodiscard]] std::string exercise(collectives::ControlPlane& plane, int rank, int size, std::size_t longest);

/// Returns "ok" for a success, or the error code and text, for example "Timeout: text".
[[nodiscard]] std::string outcome(const Status& status);

}  // namespace rueda::tests
