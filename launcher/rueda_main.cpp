// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The Rueda authors
// rueda: looks at machines. ruedarun starts jobs.
#include <fmt/format.h>

#include <cstdio>
#include <exception>
#include <string>
#include <vector>

#include "base/text.hpp"
#include "launcher/doctor/doctor.hpp"
#include "launcher/options/options.hpp"
#include "rueda/version.h"

namespace {

constexpr int kCalledWrongly = 3;

constexpr const char* kHelp =
    "Usage: rueda doctor [-np N] [-H a:2,b:2 | --hostfile FILE] [options of ruedarun]\n"
    "\n"
    "Looks for what makes jobs slow or fail on this machine, and says what to do about each thing: the mpirun, cores "
    "and\n"
    "quotas against ranks, threads, memory and its limits, shared memory, what a container forbids, the network, "
    "settings\n"
    "in the environment. Hosts that are named, or that a Slurm allocation names, are asked by mpirun, as a job would "
    "be\n"
    "started there: whether they answer, whether they have the same Rueda, how far their clocks are off.\n"
    "\n"
    "Examples:\n"
    "  rueda doctor\n"
    "  rueda doctor -np 8\n"
    "  rueda doctor --hostfile hosts.txt\n"
    "\n"
    "Exit status: 0 where all is fine, 1 where there are warnings, 2 where there are errors, 3 where rueda was called\n"
    "wrongly.\n";

int refuse(const std::string& text) {
    fmt::print(stderr, "rueda: {}\n", text);
    return kCalledWrongly;
}

int doctor(std::vector<std::string> arguments) {
    arguments.insert(arguments.begin(), "--doctor");
    const rueda::Result<rueda::launcher::CommandLine> line = rueda::launcher::parse_command_line(arguments);
    if (!line.is_ok()) {
        return refuse(line.status().message());
    }
    if (line.value().text) {
        fmt::print("{}", kHelp);
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
        return arguments.empty() ? kCalledWrongly : 0;
    }
    if (arguments.front() == "--version") {
        fmt::print("rueda {}\n", RUEDA_VERSION);
        return 0;
    }
    if (arguments.front() == "doctor") {
        return doctor({arguments.begin() + 1, arguments.end()});
    }
    return refuse(fmt::format("there is no command {}; expected doctor", rueda::base::quote(arguments.front())));
}

}  // namespace

int main(int argc, char** argv) {
    // mpirun starts this program on other hosts with this option.
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
