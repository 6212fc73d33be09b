// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The Rueda authors
#include "launcher/jobs/ps_command.hpp"

#include <fmt/format.h>

#include <cstdio>
#include <optional>
#include <vector>

#include "launcher/jobs/find_jobs.hpp"
#include "launcher/jobs/job_sample.hpp"
#include "launcher/jobs/job_table.hpp"
#include "launcher/options/command_app.hpp"

namespace rueda::launcher {

int run_ps(std::span<const std::string> arguments) {
    CommandApp command({"rueda ps", "[--json]",
                        "Lists the jobs of this user on this host. A job is found through the memory that its ranks "
                        "share, so it needs\n"
                        "no help from the program, and a job that hangs is listed too.",
                        "Examples:\n"
                        "  rueda ps            the jobs, with their ranks, processes, step, age, program and state\n"
                        "  rueda ps --json     the same for scripts\n"
                        "\n"
                        "Exit status: 0, also if there is no job; 3 if rueda was called wrongly.\n"});
    bool as_json = false;
    command.options().add_flag("--json", as_json, "Print JSON");
    if (const std::optional<int> status = command.parse(arguments)) {
        return *status;
    }
    const JobList list = find_jobs();
    std::vector<JobSample> samples;
    for (const Job& job : list.jobs) {
        samples.push_back(take_sample(job));
    }
    fmt::print("{}", as_json ? jobs_as_json(samples, list.unreadable) : describe_jobs(samples, list.unreadable));
    return 0;
}

}  // namespace rueda::launcher
