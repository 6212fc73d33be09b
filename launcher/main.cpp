// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The Rueda authors
// The program ruedarun, which starts the ranks of a job, on this host or on several, and ends them together.
#include <fcntl.h>
#include <fmt/format.h>
#include <unistd.h>

#include <csignal>
#include <cstdio>
#include <exception>
#include <string>
#include <vector>

#include "base/gpus/machine_gpus.hpp"
#include "launcher/doctor/doctor.hpp"
#include "launcher/options/options.hpp"
#include "launcher/plan/describe_plan.hpp"
#include "launcher/plan/plan.hpp"
#include "launcher/plan/srun_task.hpp"
#include "launcher/plan/surroundings.hpp"
#include "launcher/plan/unknown_hosts.hpp"
#include "launcher/processes/child_process.hpp"
#include "launcher/processes/programs.hpp"
#include "launcher/run_attempts.hpp"
#include "launcher/supervisor/host_agent.hpp"
#include "launcher/supervisor/supervisor.hpp"

namespace {

using rueda::Result;
using rueda::Status;

constexpr int kWrongUse = 2;

int refuse(const Status& status) {
    fmt::print(stderr, "ruedarun: {}\n", status.message());
    return kWrongUse;
}

/// Ensures that the descriptors 0, 1 and 2 are open. If one of them were closed, a file that is opened later could get
/// its number. Child processes would then use that file, for example, as their standard output.
void open_standard_descriptors() {
    int fd = 0;
    do {
        fd = ::open("/dev/null", O_RDWR);
    } while (fd >= 0 && fd <= STDERR_FILENO);
    if (fd >= 0) {
        ::close(fd);
    }
}

void say_lines(const std::vector<std::string>& lines) {
    for (const std::string& line : lines) {
        fmt::print(stderr, "ruedarun: {}\n", line);
    }
}

rueda::launcher::Environment changed(const rueda::launcher::SrunTask& task) {
    return rueda::launcher::changed_environment(rueda::launcher::environment_of_this_process(), task.environment);
}

std::string path_of(const rueda::launcher::Environment& environment) {
    const auto path = environment.find("PATH");
    return path == environment.end() ? "/usr/bin:/bin" : path->second;
}

/// Replaces this process by the rank's program. Returns only if the program cannot be run, or if --dry-run or --explain
/// was given.
int become_program(const rueda::launcher::Options& options, const rueda::launcher::SrunTask& task) {
    using namespace rueda::launcher;
    const Environment environment = changed(task);
    const Result<std::string> program = find_program(options.program.front(), path_of(environment));
    if (!program.is_ok()) {
        return refuse(program.status());
    }
    say_lines(task.notes);
    if (options.dry_run || options.explain) {
        LaunchPlan plan;
        plan.reasons = task.reasons;
        plan.environment = task.environment;
        plan.way = LaunchWay::mpirun;  // makes describe_as_shell() print mpirun_to_paste, which is the program here
        plan.mpirun_to_paste = options.program;
        fmt::print("{}{}", options.explain ? describe_reasons(plan) : "", describe_as_shell(plan));
        return 0;
    }
    if (!task.about_threads.empty()) {
        say_lines({task.about_threads});
    }
    say_lines(options.verbose ? task.reasons : std::vector<std::string>());
    return exec_program(program.value(), options.program, environment);
}

int launch(const rueda::launcher::Options& options) {
    using namespace rueda::launcher;
    const Result<std::optional<SrunTask>> task =
        find_srun_task(options, environment_of_this_process(), find_rank_cores(environment_of_this_process()));
    if (!task.is_ok()) {
        return refuse(task.status());
    }
    if (task.value()) {
        return become_program(options, *task.value());
    }
    Result<Surroundings> around = look_around(options.may_use_mpi());
    if (!around.is_ok()) {
        return refuse(around.status());
    }
    if (options.gpus_per_rank) {
        around.value().gpus = rueda::base::find_machine_gpus().gpus;
    }
    const Result<LaunchPlan> plan = make_plan(options, around.value());
    if (!plan.is_ok()) {
        return refuse(plan.status());
    }
    const Environment environment = changed_environment(around.value().environment, plan.value().environment);
    const Result<std::string> program = find_program(options.program.front(), path_of(environment));
    if (!program.is_ok() && plan.value().runs_here) {
        return refuse(program.status());
    }
    if (plan.value().elastic && !plan.value().elastic->discovery_script.empty()) {
        const Result<std::string> script = find_program(plan.value().elastic->discovery_script, path_of(environment));
        if (!script.is_ok()) {
            return refuse(
                rueda::failure(rueda::ErrorCode::invalid_argument,
                               "--host-discovery-script: {}; the script must be executable, and have a path or be in "
                               "PATH",
                               script.status().message()));
        }
    }
    say_lines(plan.value().notes);
    if (options.verbose && !options.explain) {
        say_lines(plan.value().reasons);
    }
    if (options.explain) {
        fmt::print("{}", describe_reasons(plan.value()));
    }
    if (options.dry_run || options.explain) {
        fmt::print("{}", describe_as_shell(plan.value()));
        return 0;
    }
    if (!plan.value().about_threads.empty()) {
        say_lines({plan.value().about_threads});
    }
    const Result<std::vector<std::string>> unknown = look_for_unknown_hosts(plan.value(), options, environment);
    if (!unknown.is_ok()) {
        return refuse(unknown.status());
    }
    say_lines(unknown.value());
    return run_attempts(options, around.value(), plan.value(), program.is_ok() ? program.value() : "");
}

int run(const std::vector<std::string>& arguments) {
    if (!arguments.empty() && arguments.front() == rueda::launcher::kSupervisorOption) {
        return rueda::launcher::run_rank_supervisor(std::span(arguments).subspan(1));
    }
    if (!arguments.empty() && arguments.front() == rueda::launcher::kAgentOption) {
        return rueda::launcher::run_host_agent(std::span(arguments).subspan(1));
    }
    if (!arguments.empty() && arguments.front() == rueda::launcher::kDoctorEchoOption) {
        fmt::print("{}", rueda::launcher::doctor_echo());
        return 0;
    }
    const Result<rueda::launcher::CommandLine> line = rueda::launcher::parse_command_line(arguments);
    if (!line.is_ok()) {
        return refuse(line.status());
    }
    if (line.value().text) {
        fmt::print("{}", *line.value().text);
        return 0;
    }
    if (line.value().options.doctor) {
        return rueda::launcher::run_doctor(line.value().options);
    }
    return launch(line.value().options);
}

}  // namespace

int main(int argc, char** argv) {
    open_standard_descriptors();
    // SIGXFSZ is ignored. If an output file reaches the maximum file size (ulimit -f), write() then fails as it does on
    // a full disk. The programs that ruedarun starts get the default action of the signal again (child_process.cpp).
    ::signal(SIGXFSZ, SIG_IGN);
    try {
        return run({argv + (argc > 0 ? 1 : 0), argv + argc});
    } catch (const std::exception& error) {
        fmt::print(stderr, "ruedarun: {}\n", error.what());
        return 1;
    }
}
