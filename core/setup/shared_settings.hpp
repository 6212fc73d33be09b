// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The Rueda authors
#pragma once

#include <string>

#include "base/settings/config.hpp"
#include "base/status.hpp"
#include "collectives/control_plane.hpp"

namespace rueda::core {

/// Puts rank 0's values into `config` for those settings for which they count, by the scope of each row in the table of
/// settings. On rank 0 it returns the warning about values that do not count; "" on other ranks, or if all values are
/// equal. InvalidArgument, with the same line on all ranks, if settings differ that must be equal. Collective.
[[nodiscard]] Result<std::string> share_settings(collectives::ControlPlane& control_plane, base::Config& config);

}  // namespace rueda::core
