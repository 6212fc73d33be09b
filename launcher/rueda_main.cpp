// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The Rueda authors
// The program rueda, which examines machines and jobs. (ruedarun is the program that starts jobs.)
#include <fmt/format.h>

#include <cstdio>
#include <exception>
#include <span>
#include <string>
#include <vector>

#include "base/text.hpp"
#include "launcher/analyze/analyze.hpp"
#include "launcher/doctor/doctor.hpp"
#include "launcher/evaluate/evaluate_command.hpp"
#include "launcher/jobs/ps_command.hpp"
#include "launcher/options/command_app.hpp"
#include "launcher/options/options.hpp"
#include "launcher/stacks/stacks_command.hpp"
#include "launcher/timeline/timeline_command.hpp"
#include "launcher/top/show/top_command.hpp"
#include "rueda/version.h"

namespace {

using rueda::launcher::kRuedaCalledWrongly;

constexpr const char* kHelp =
    "Usage: rueda COMMAND [arguments ...]\n"
    "\n"
    "Looks at machines and at jobs. ruedarun starts jobs.\n"
    "\n"
    "Commands:\n"
    "  doctor   look for things that make jobs slow or make them fail on this machine\n"
    "  ps       list the jobs of this user on this host\n"
    "  top      show what the ranks of a job are doing, and which of them is slow\n"
    "  stacks   print where the main threads of all ranks of a job are\n"
    "  analyze  say where the ranks of a job diverged, and what they waited for\n"
    "  timeline merge the parts of a timeline, or make one of the flight recorder\n"
    "  evaluate run a program for each new checkpoint of a training\n"
    "\n"
    "Examples:\n"
    "  rueda doctor\n"
    "  rueda ps\n"
    "  rueda top\n"
    "  rueda stacks\n"
    "  rueda top --help\n"
    "\n"
    "Exit status: 3 if rueda was called wrongly. The help of each command lists its other values.\n";

constexpr const char* kDoctorHelp =
    "Usage: rueda doctor [-np N] [-H a:2,b:2 | --hostfile FILE] [options of ruedarun]\n"
    "\n"
    "Looks for things that make jobs slow or make them fail on this machine, and says what to do about each. It "
    "checks\n"
    "the mpirun, cores and quotas, threads, memory and its limits, shared memory, restrictions of a container, GPUs,\n"
    "the network, and settings in the environment. It also asks other hosts that are named, or that a Slurm "
    "allocation\n"
    "names. mpirun reaches them as it would for a job. Each is checked for an answer, the same version of Rueda, and "
    "the\n"
    "same time.\n"
    "\n"
    "Examples:\n"
    "  rueda doctor\n"
    "  rueda doctor -np 8\n"
    "  rueda doctor --hostfile hosts.txt\n"
    "\n"
    "Exit status: 0 if everything is fine, 1 if there are warnings, 2 if there are errors, 3 if rueda was called "
    "wrongly.\n";

int refuse(const std::string& text) {
    fmt::print(stderr, "rueda: {}\n", text);
    return kRuedaCalledWrongly;
}

int doctor(std::vector<std::string> arguments) {
    arguments.insert(arguments.begin(), "--doctor");
    const rueda::Result<rueda::launcher::CommandLine> line = rueda::launcher::parse_command_line(arguments);
    if (!line.is_ok()) {
        return refuse(line.status().message());
    }
    if (line.value().text) {
        fmt::print("{}", kDoctorHelp);
        return 0;
    }
    if (!line.value().options.program.empty()) {
        return refuse(
            fmt::format("doctor runs no program; found {}", rueda::base::quote(line.value().options.program.front())));
    }
    return rueda::launcher::run_doctor(line.value().options);
}

int run(const std::vector<std::string>& arguments) {
    if (arguments.empty() || arguments.front() == "--help" || arguments.front() == "-h") {
        fmt::print(arguments.empty() ? stderr : stdout, "{}", kHelp);
        return arguments.empty() ? kRuedaCalledWrongly : 0;
    }
    if (arguments.front() == "--version") {
        fmt::print("rueda {}\n", RUEDA_VERSION);
        return 0;
    }
    if (arguments.front() == "doctor") {
        return doctor({arguments.begin() + 1, arguments.end()});
    }
    if (arguments.front() == "ps") {
        return rueda::launcher::run_ps(std::span(arguments).subspan(1));
    }
    if (arguments.front() == "top") {
        return rueda::launcher::run_top(std::span(arguments).subspan(1));
    }
    if (arguments.front() == "stacks") {
        return rueda::launcher::run_stacks(std::span(arguments).subspan(1));
    }
    if (arguments.front() == "analyze") {
        return rueda::launcher::run_analyze(std::span(arguments).subspan(1));
    }
    if (arguments.front() == "timeline") {
        return rueda::launcher::run_timeline(std::span(arguments).subspan(1));
    }
    if (arguments.front() == "evaluate") {
        return rueda::launcher::run_evaluate(std::span(arguments).subspan(1));
    }
    return refuse(fmt::format("there is no command {}; expected doctor, ps, top, stacks, analyze, timeline or evaluate",
                              rueda::base::quote(arguments.front())));
}

}  // namespace

int main(int argc, char** argv) {
    // mpirun starts this program on other hosts with this option (see doctor.hpp).
    if (argc == 2 && std::string(argv[1]) == rueda::launcher::kDoctorEchoOption) {
        fmt::print("{}", rueda::launcher::doctor_echo());
        return 0;
    }
    try {
        return run({argv + (argc > 0 ? 1 : 0), argv + argc});
    } catch (const std::exception& error) {
        return refuse(error.what());
    }
}
