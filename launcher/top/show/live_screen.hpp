// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The Rueda authors
#pragma once

#include <chrono>

#include "launcher/jobs/find_jobs.hpp"

namespace rueda::launcher {

/// Shows the job on the terminal until the user presses q, a signal arrives, or the job ends. Returns the exit status.
[[nodiscard]] int show_live(Job& job, std::chrono::nanoseconds interval);

}  // namespace rueda::launcher
