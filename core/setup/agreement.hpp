// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The Rueda authors
#pragma once

#include "base/status.hpp"
#include "collectives/control_plane.hpp"

namespace rueda::core {

/// Returns a failure on all ranks if `mine` is a failure on any rank. A rank that has failed gets its own failure, and
/// the other ranks get the failure of the lowest rank that has failed. Collective.
[[nodiscard]] Status agree_on(collectives::ControlPlane& control_plane, const Status& mine);

}  // namespace rueda::core
