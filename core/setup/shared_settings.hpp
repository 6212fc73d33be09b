// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The Rueda authors
#pragma once

#include <string>

#include "base/settings/config.hpp"
#include "base/status.hpp"
#include "collectives/control_plane.hpp"

namespace rueda::core {

/// Copies rank 0's values into `config`, for those settings for which rank 0's value applies: the scope of each row in
/// the table of settings says so. On rank 0, returns a warning about values of other ranks that are not used; returns
/// "" on other ranks, or if all values are equal. If settings that must be equal differ, returns InvalidArgument with
/// the same line on all ranks. Collective.
[[nodiscard]] Result<std::string> share_settings(collectives::ControlPlane& control_plane, base::Config& config);

}  // namespace rueda::core
