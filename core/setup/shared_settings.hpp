// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The Rueda authors
#pragma once

#include <string>

#include "base/settings/config.hpp"
#include "base/status.hpp"
#include "collectives/control_plane.hpp"

namespace rueda::core {

/// Puts rank 0's values into `config` where those count, by the scope of each row in the table of settings. What is to
/// be said about values that do not count, on rank 0; "" elsewhere, or for nothing. InvalidArgument, with the same line
/// on all ranks, where settings differ that must not. Collective.
[[nodiscard]] Result<std::string> share_settings(collectives::ControlPlane& control_plane, base::Config& config);

}  // namespace rueda::core
