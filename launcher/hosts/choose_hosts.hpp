// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The Rueda authors
#pragma once

#include <optional>
#include <string>

#include "base/files.hpp"
#include "base/status.hpp"
#include "launcher/hosts/hosts.hpp"
#include "launcher/options/options.hpp"
#include "launcher/options/variables.hpp"

namespace rueda::launcher {

/// Returns the hosts that the user named. If the user named no hosts, returns the hosts of the Slurm allocation. If
/// there is no allocation, returns the hosts of SageMaker. Returns nothing if the job is to run only on this host.
[[nodiscard]] Result<std::optional<HostList>> choose_hosts(const Options& options, const Environment& environment,
                                                           const base::FileReader& read);

}  // namespace rueda::launcher
