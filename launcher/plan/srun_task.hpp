// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The Rueda authors
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "launcher/plan/host_settings.hpp"
#include "launcher/plan/plan.hpp"

namespace rueda::launcher {

/// What ruedarun does if srun starts it once for each rank: `srun -n 4 ruedarun ./program`. These ruedaruns do not
/// start a job. Each of them sets the variables that the program needs, and then replaces itself by the program (exec).
struct SrunTask {
    std::vector<EnvironmentChange> environment;
    std::vector<std::string> reasons;
    std::vector<std::string> notes;  ///< notes that are always printed for the user; only the first rank has notes
    std::string about_threads;       ///< what ruedarun prints about the ranks' threads; only the first rank prints it
};

/// Whether this process is the shell that `srun --pty` opened, or runs in this shell. The shell has the variables of a
/// task. But the other tasks of the step do not run the commands that a user types into the shell.
[[nodiscard]] bool is_in_shell_of_srun(const Environment& environment);

/// Returns the task if srun started this process as one of several tasks. In all other cases returns nothing, also in
/// the shell of `srun --pty`. `cores`: see find_rank_cores(). Fails with InvalidArgument in two cases: the ranks could
/// not find each other, or the options ask for another job than the one that srun has started.
[[nodiscard]] Result<std::optional<SrunTask>> find_srun_task(const Options& options, const Environment& environment,
                                                             const RankCores& cores);

}  // namespace rueda::launcher
