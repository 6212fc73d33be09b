// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The Rueda authors
#pragma once

#include "base/status.hpp"
#include "collectives/control_plane.hpp"

namespace rueda::core {

/// Either all ranks go on or none does. A rank that failed gets its own failure; the others get the first failure, by
/// rank. Collective.
[[nodiscard]] Status agree_on(collectives::ControlPlane& control_plane, const Status& mine);

}  // namespace rueda::core
