// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The Rueda authors
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "launcher/plan/plan.hpp"

namespace rueda::launcher {

/// With `srun -n 4 ruedarun ./program`, srun starts ruedarun once in each rank. Such a ruedarun starts no job: it sets
/// the variables that the program needs, and becomes the program.
struct SrunTask {
    std::vector<EnvironmentChange> environment;
    std::vector<std::string> reasons;
    std::vector<std::string> notes;  ///< lines that the user gets in any case; only the first rank has any
};

/// Whether this process is the shell that `srun --pty` opened, or runs in it. The shell has the variables of a task,
/// but the other tasks of the step do not run the commands that are typed into it.
[[nodiscard]] bool is_in_shell_of_srun(const Environment& environment);

/// Returns nothing if this process is not one of several tasks of a step, or is in the shell of `srun --pty`. `cores`
/// is the number of usable cores. Returns InvalidArgument if the ranks could not find each other, or if the options ask
/// for another job than srun has started.
[[nodiscard]] Result<std::optional<SrunTask>> find_srun_task(const Options& options, const Environment& environment,
                                                             double cores);

}  // namespace rueda::launcher
