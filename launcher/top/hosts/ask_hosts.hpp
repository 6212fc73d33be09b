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
    std::string json;     ///< what rueda printed on this host; "" if there is a problem
    std::string problem;  ///< why there is no answer, without control characters
};

struct HostsQuestion {
    std::vector<std::string> hosts;
    std::vector<std::string> arguments;  ///< rueda's arguments, which make it print the view as JSON
    /// for each host: rueda's last argument, which names the job; if the list is empty, no argument names the job
    std::vector<std::string> jobs;
    std::chrono::milliseconds time{};  ///< how long rueda itself needs for the answer
    std::optional<int> ssh_port;
    std::string ssh_identity;  ///< "": ssh chooses
};

/// The commands that run rueda on each of the hosts. All of them are executed on this host.
struct HostCommands {
    std::vector<std::vector<std::string>> words;  ///< one command for each host, in the order of the hosts
    Environment environment;
};

/// Returns the commands that ask the hosts. On other hosts, mpirun starts rueda in the same way as it starts a job. If
/// there is no mpirun, ssh starts rueda. Fails if mpirun does not support an option of the question.
[[nodiscard]] Result<HostCommands> commands_for(const HostsQuestion& question);

/// If a line begins with these characters, it is an error message of rueda. mpirun does not change such lines.
inline constexpr std::string_view kErrorMark = "rueda: ";

/// Returns whether the line has characters that are not blanks or dashes. (Open MPI prints lines of dashes around its
/// messages.) Pure.
[[nodiscard]] bool has_words(std::string_view line);

/// Prepares a text of another host for a message: removes blanks, and the carriage returns that ssh writes, at both
/// ends, and replaces control characters. Pure.
[[nodiscard]] std::string printable_answer(std::string_view text);

/// Runs rueda on all hosts at the same time. The answers are in the order of the hosts. Fails as commands_for() does.
[[nodiscard]] Result<std::vector<HostAnswer>> ask_hosts(const HostsQuestion& question);

/// Takes the answer out of the output of mpirun or ssh, which may contain other lines before and after the answer.
/// Pure.
[[nodiscard]] HostAnswer read_host_answer(std::string_view host, std::string_view output);

}  // namespace rueda::launcher
