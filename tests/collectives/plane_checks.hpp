// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The Rueda authors
#pragma once

#include <string>

#include "collectives/control_plane.hpp"

namespace rueda::tests {

/// `count` bytes that depend on `seed`.
[[nodiscard]] collectives::Bytes pattern(std::size_t count, int seed);

/// Checks what every control plane must do, on all ranks at once. Returns "ok", or what was wrong. Sizes differ between
/// ranks, are zero on rank 0, and reach `longest` bytes.
[[nodiscard]] std::string exercise(collectives::ControlPlane& plane, int rank, int size, std::size_t longest);

/// "Timeout: text" for a failure, "ok" for a success.
[[nodiscard]] std::string outcome(const Status& status);

}  // namespace rueda::tests
