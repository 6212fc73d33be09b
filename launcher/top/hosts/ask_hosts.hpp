// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The Rueda authors
#pragma once

#include <chrono>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/status.hpp"
#include "launcher/options/variables.hpp"

namespace rueda::launcher {

struct HostAnswer {
    std::string host;
    std::string json;     ///< what rueda printed there; "" if there is a problem
    std::string problem;  ///< why there is no answer, without control characters
};

struct HostsQuestion {
    std::vector<std::string> hosts;
    std::vector<std::string> arguments;  ///< of rueda; it prints one JSON object with them
    std::vector<std::string> jobs;       ///< the last argument on each host; empty: there is none
    std::chrono::milliseconds time{};    ///< that rueda itself needs for the answer
    std::optional<int> ssh_port;
    std::string ssh_identity;  ///< "": ssh chooses
};

/// What to execute on this host, to run rueda on each of the hosts.
struct HostCommands {
    std::vector<std::vector<std::string>> words;  ///< in the order of the hosts
    Environment environment;
};

/// On other hosts, mpirun starts rueda in the same way as a job. Fails if there is no mpirun for another host, or if it
/// does not support the question.
[[nodiscard]] Result<HostCommands> commands_for(const HostsQuestion& question);

/// An error of rueda begins with these characters, in the output of mpirun too.
inline constexpr std::string_view kErrorMark = "rueda: ";

/// Whether the line of a program has more than blanks, and more than the dashes around Open MPI's messages. Pure.
[[nodiscard]] bool has_words(std::string_view line);

/// Runs rueda on all hosts at the same time. The answers are in the order of the hosts. Fails as commands_for() does.
[[nodiscard]] Result<std::vector<HostAnswer>> ask_hosts(const HostsQuestion& question);

/// Takes the answer out of the output of mpirun, which may have printed lines of its own before and after it. Pure.
[[nodiscard]] HostAnswer read_host_answer(std::string_view host, std::string_view output);

}  // namespace rueda::launcher
