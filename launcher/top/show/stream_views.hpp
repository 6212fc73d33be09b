// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The Rueda authors
#pragma once

#include <chrono>

#include "launcher/jobs/find_jobs.hpp"

namespace rueda::launcher {

/// Prints the job in JSON, one line for each interval, until the job ends or nobody reads the standard output any more.
/// Returns the exit status. `rueda top --hosts` runs this on each host.
[[nodiscard]] int stream_views(Job& job, std::chrono::nanoseconds interval);

}  // namespace rueda::launcher
