// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The Rueda authors
#include "launcher/stacks/stacks_command.hpp"

#include <fmt/format.h>

#include <cstdio>
#include <optional>

#include "launcher/jobs/find_jobs.hpp"
#include "launcher/options/command_app.hpp"
#include "launcher/stacks/stacks_text.hpp"
#include "launcher/stacks/take_stacks.hpp"
#include "launcher/top/choose_job.hpp"

namespace rueda::launcher {

namespace {

constexpr int kNoSuchJob = 1;
constexpr int kIncomplete = 2;

}  // namespace

int run_stacks(std::span<const std::string> arguments) {
    CommandApp command(
        {"rueda stacks", "[JOB] [--json]",
         "Prints where the main thread of each rank of a job on this host is: the functions with their files and "
         "lines,\n"
         "of Python and of native code. Each rank takes its own stack. For this, a signal interrupts its main thread\n"
         "once (RUEDA_STACK_SIGNAL). A rank that does not answer is described as the kernel sees it.",
         "Examples:\n"
         "  rueda stacks                the only job of this host\n"
         "  rueda stacks j1034          this one (rueda ps lists them)\n"
         "  rueda stacks 17291          the job to which this process belongs\n"
         "  rueda stacks --json         the same for scripts\n"
         "\n"
         "Exit status: 0; 1 if there is no such job; 2 if the stack of a rank could not be taken; 3 if rueda was "
         "called\n"
         "wrongly.\n"});
    std::string wanted;
    bool as_json = false;
    command.options()
        .add_option("JOB", wanted, "Id of the job, or number of one of its processes (default: the only job here)")
        ->type_name("");
    command.options().add_flag("--json", as_json, "Print JSON");
    if (const std::optional<int> status = command.parse(arguments)) {
        return *status;
    }
    const Result<Job> job = choose_job(find_jobs(), wanted);
    if (!job.is_ok()) {
        return refuse_command(job.status(), kNoSuchJob);
    }
    const Result<JobStacks> stacks = take_stacks(job.value());
    if (!stacks.is_ok()) {
        return refuse_command(failure(stacks.status().code(), "job {} cannot be asked for its stacks: {}",
                                      job.value().id, stacks.status().message()),
                              kNoSuchJob);
    }
    fmt::print("{}", as_json ? stacks_as_json(stacks.value()) : describe_stacks(stacks.value()));
    return stacks.value().are_complete() ? 0 : kIncomplete;
}

}  // namespace rueda::launcher
