// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The Rueda authors
#pragma once

#include <string>

#include "collectives/control_plane.hpp"

namespace rueda::tests {

/// Returns `count` bytes whose values depend on `seed`.
[[nodiscard]] collectives::Bytes pattern(std::size_t count, int seed);

/// Checks the behaviour that every control plane must have. All ranks call it at the same time. Returns "ok", or what
/// was wrong. The sizes of the messages differ between ranks: zero on rank 0, and up to `longest` bytes on the others.
[[nodiscard]] std::string exercise(collectives::ControlPlane& plane, int rank, int size, std::size_t longest);

/// Returns "ok" for a success, and a text such as "Timeout: text" for a failure.
[[nodiscard]] std::string outcome(const Status& status);

}  // namespace rueda::tests
