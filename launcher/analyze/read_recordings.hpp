// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The Rueda authors
#pragma once

#include <string>
#include <vector>

#include "base/recorder/recording_file.hpp"
#include "base/status.hpp"

namespace rueda::launcher {

/// Reads the flight recorder files in a folder, ordered by rank. Fails with InvalidArgument if the folder has no such
/// file, if a file is damaged, or if the files belong to different jobs.
[[nodiscard]] Result<std::vector<base::Recording>> read_recordings(const std::string& folder);

/// Checks that the recordings, of which there must be at least one, belong to one job: all of them give the same size
/// of the job, the rank of the first recording does not occur again, and the ranks began at about the same time.
[[nodiscard]] Status check_same_job(const std::vector<base::Recording>& recordings);

}  // namespace rueda::launcher
