// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The Rueda authors
// ruedarun: starts the ranks of a job on this host and ends them together.
#include <fcntl.h>
#include <fmt/format.h>
#include <unistd.h>

#include <cstdio>
#include <exception>
#include <string>
#include <vector>

#include "launcher/describe_plan.hpp"
#include "launcher/options.hpp"
#include "launcher/plan.hpp"
#include "launcher/programs.hpp"
#include "launcher/run_job.hpp"
#include "launcher/supervisor.hpp"
#include "launcher/surroundings.hpp"

namespace {

using rueda::Result;
using rueda::Status;

constexpr int kWrongUse = 2;

int refuse(const Status& status) {
    fmt::print(stderr, "ruedarun: {}\n", status.message());
    return kWrongUse;
}

/// A descriptor opened later must not become 0, 1 or 2, which children get.
void open_standard_descriptors() {
    int fd = 0;
    do {
        fd = ::open("/dev/null", O_RDWR);
    } while (fd >= 0 && fd <= STDERR_FILENO);
    if (fd >= 0) {
        ::close(fd);
    }
}

int launch(const rueda::launcher::Options& options) {
    using namespace rueda::launcher;
    const Result<Surroundings> around = look_around(!options.no_mpi);
    if (!around.is_ok()) {
        return refuse(around.status());
    }
    const Result<LaunchPlan> plan = make_plan(options, around.value());
    if (!plan.is_ok()) {
        return refuse(plan.status());
    }
    const std::map<std::string, std::string> environment =
        changed_environment(around.value().environment, plan.value().environment);
    const auto path = environment.find("PATH");
    const Result<std::string> program =
        find_program(options.program.front(), path == environment.end() ? "/usr/bin:/bin" : path->second);
    if (!program.is_ok()) {
        return refuse(program.status());
    }
    if (options.verbose) {
        for (const std::string& reason : plan.value().reasons) {
            fmt::print(stderr, "ruedarun: {}\n", reason);
        }
    }
    if (options.dry_run) {
        fmt::print("{}", describe_as_shell(plan.value()));
        return 0;
    }
    return run_job(plan.value(), around.value(), program.value());
}

int run(const std::vector<std::string>& arguments) {
    if (!arguments.empty() && arguments.front() == rueda::launcher::kSupervisorOption) {
        return rueda::launcher::run_rank_supervisor(std::span(arguments).subspan(1));
    }
    const Result<rueda::launcher::CommandLine> line = rueda::launcher::parse_command_line(arguments);
    if (!line.is_ok()) {
        return refuse(line.status());
    }
    if (line.value().text) {
        fmt::print("{}", *line.value().text);
        return 0;
    }
    return launch(line.value().options);
}

}  // namespace

int main(int argc, char** argv) {
    open_standard_descriptors();
    try {
        return run({argv + (argc > 0 ? 1 : 0), argv + argc});
    } catch (const std::exception& error) {
        fmt::print(stderr, "ruedarun: {}\n", error.what());
        return 1;
    }
}
