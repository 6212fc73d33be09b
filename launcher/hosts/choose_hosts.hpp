// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The Rueda authors
#pragma once

#include <map>
#include <optional>
#include <string>

#include "base/files.hpp"
#include "base/status.hpp"
#include "launcher/hosts/hosts.hpp"
#include "launcher/options/options.hpp"

namespace rueda::launcher {

/// The hosts that the user named, else those of a Slurm allocation, else SageMaker's; none: the job is this host's.
[[nodiscard]] Result<std::optional<HostList>> choose_hosts(const Options& options,
                                                           const std::map<std::string, std::string>& environment,
                                                           const base::FileReader& read);

}  // namespace rueda::launcher
