// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The Rueda authors
#pragma once

#include <string>

#include "collectives/ucx/plugin_interface.hpp"

namespace rueda::collectives {

/// Loads the UCX plugin once per process and never unloads it. `file` is the setting RUEDA_UCX_PLUGIN. If it is empty,
/// librueda_ucx.so is looked for beside the library. If the plugin is missing or cannot be loaded, the error names the
/// package. Threads: any thread may call this function.
[[nodiscard]] Result<const UcxPlugin*> load_ucx_plugin(const std::string& file);

}  // namespace rueda::collectives
