// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The Rueda authors
#pragma once

#include <string>
#include <vector>

#include "base/recorder/recording_file.hpp"
#include "base/status.hpp"

namespace rueda::launcher {

/// Reads the files of the flight recorder in a folder, in the order of the ranks. Fails with InvalidArgument if there
/// are none, if one of them is damaged, or if they are of different jobs.
[[nodiscard]] Result<std::vector<base::Recording>> read_recordings(const std::string& folder);

/// The same check for recordings that were read: the size of the job, each rank once, and times of the beginning that
/// fit.
[[nodiscard]] Status check_same_job(const std::vector<base::Recording>& recordings);

}  // namespace rueda::launcher
