// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The Rueda authors
#pragma once

#include <string>

#include "base/settings/config.hpp"
#include "base/status.hpp"
#include "collectives/control_plane.hpp"

namespace rueda::core {

/// For each setting whose scope (in the table of settings) says that rank 0's value counts: copies rank 0's value into
/// `config`. On rank 0, returns a warning if other ranks have values that are not used; otherwise "". If settings that
/// must be equal differ, returns InvalidArgument on all ranks, with the same text. Collective.
[[nodiscard]] Result<std::string> share_settings(collectives::ControlPlane& control_plane, base::Config& config);

}  // namespace rueda::core
