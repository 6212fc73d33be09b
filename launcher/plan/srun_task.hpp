// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The Rueda authors
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "launcher/plan/plan.hpp"

namespace rueda::launcher {

/// With `srun -n 4 ruedarun ./program`, srun starts ruedarun once in each rank. Such a ruedarun does not start a job:
/// it sets the variables that the program needs, and then becomes the program (exec).
struct SrunTask {
    std::vector<EnvironmentChange> environment;
    std::vector<std::string> reasons;
    std::vector<std::string> notes;  ///< lines that are always printed for the user; only the first rank has such lines
};

/// Whether this process is the shell that `srun --pty` opened, or runs in such a shell. The shell has the variables of
/// a task, but the other tasks of the step do not run the commands that a user types into the shell.
[[nodiscard]] bool is_in_shell_of_srun(const Environment& environment);

/// Makes the task, or returns nothing if this process is not one of several tasks of a step, or runs in the shell of
/// `srun --pty`. `cores` is the number of usable cores. Fails with InvalidArgument if the ranks could not find each
/// other, or if the options describe a different job from the one that srun has started.
[[nodiscard]] Result<std::optional<SrunTask>> find_srun_task(const Options& options, const Environment& environment,
                                                             double cores);

}  // namespace rueda::launcher
