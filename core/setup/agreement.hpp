// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The Rueda authors
#pragma once

#include "base/status.hpp"
#include "collectives/control_plane.hpp"

namespace rueda::core {

/// Ensures that either all ranks continue or none does. A rank that failed gets its own failure; the other ranks get
/// the failure of the lowest rank that failed. Collective.
[[nodiscard]] Status agree_on(collectives::ControlPlane& control_plane, const Status& mine);

}  // namespace rueda::core
