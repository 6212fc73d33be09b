// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The Rueda authors
#pragma once

#include <string>

#include "base/settings/config.hpp"
#include "base/status.hpp"
#include "collectives/control_plane.hpp"

namespace rueda::core {

/// Copies rank 0's values into `config`, for settings for which rank 0's value counts (the scope in the table of
/// settings). On rank 0, returns a warning if other ranks have values that are not used; otherwise "". Returns
/// InvalidArgument on all ranks, with the same text, if settings differ that must be equal. Collective.
[[nodiscard]] Result<std::string> share_settings(collectives::ControlPlane& control_plane, base::Config& config);

}  // namespace rueda::core
