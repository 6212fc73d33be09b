// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The Rueda authors
#pragma once

#include <string>

#include "base/settings/config.hpp"
#include "base/status.hpp"
#include "collectives/control_plane.hpp"

namespace rueda::core {

/// Copies rank 0's values of some settings into `config`. These are the settings whose scope (in the table of settings)
/// says that rank 0's value counts. If other ranks have different values, which are then not used, returns a warning on
/// rank 0. Otherwise returns "". If settings that must be equal differ, returns InvalidArgument on all ranks, with the
/// same text. Collective.
[[nodiscard]] Result<std::string> share_settings(collectives::ControlPlane& control_plane, base::Config& config);

}  // namespace rueda::core
