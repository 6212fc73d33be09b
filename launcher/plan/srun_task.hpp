// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The Rueda authors
#pragma once

#include <map>
#include <optional>
#include <string>
#include <vector>

#include "launcher/plan/plan.hpp"

namespace rueda::launcher {

/// `srun -n 4 ruedarun ./program`: srun has started the ranks already, and ruedarun is in each of them. It starts no
/// job, but becomes the program, with what the program needs.
struct SrunTask {
    std::vector<EnvironmentChange> environment;
    std::vector<std::string> reasons;
    std::vector<std::string> notes;  ///< what the user is told in any case; of the first rank only
};

/// This is the shell that `srun --pty` has opened, or a process of it. It has the variables of a task, but is none: the
/// step's other tasks do not run what is typed into it.
[[nodiscard]] bool is_in_shell_of_srun(const std::map<std::string, std::string>& environment);

/// None where this process is no task of a step with several, or is in the shell that `srun --pty` has opened. `cores`
/// are those that it may use. InvalidArgument where the ranks could not meet, or where the options ask for another job
/// than srun has started.
[[nodiscard]] Result<std::optional<SrunTask>> find_srun_task(const Options& options,
                                                             const std::map<std::string, std::string>& environment,
                                                             double cores);

}  // namespace rueda::launcher
