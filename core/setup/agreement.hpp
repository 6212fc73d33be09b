// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The Rueda authors
#pragma once

#include "base/status.hpp"
#include "collectives/control_plane.hpp"

namespace rueda::core {

/// Lets either all ranks continue or none. If some ranks failed, each of them gets its own failure, and the other ranks
/// get the failure of the lowest such rank. Collective.
[[nodiscard]] Status agree_on(collectives::ControlPlane& control_plane, const Status& mine);

}  // namespace rueda::core
