// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The Rueda authors
#include "launcher/top/hosts/ask_hosts.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <utility>

#include "base/text.hpp"
#include "launcher/options/text_parts.hpp"
#include "launcher/plan/mpi_launcher.hpp"
#include "launcher/plan/ssh_command.hpp"
#include "launcher/plan/surroundings.hpp"
#include "launcher/processes/captured_run.hpp"

namespace rueda::launcher {

namespace {

/// How long it may take to start rueda on a host. If ssh gets no answer, mpirun itself gives up earlier, after about
/// 20 s.
constexpr std::chrono::seconds kStartTime{25};

/// The maximum number of hosts. Each host gets an mpirun of its own. All hosts are asked at once, because the answers
/// should describe the same interval.
constexpr std::size_t kMostHostsAtOnce = 64;

Result<std::vector<std::string>> command_for(std::size_t index, const HostsQuestion& question,
                                             const Surroundings& around) {
    const std::string& host = question.hosts[index];
    std::vector<std::string> program = {around.own_path};
    program.insert(program.end(), question.arguments.begin(), question.arguments.end());
    if (!question.jobs.empty()) {
        program.push_back(question.jobs[index]);
    }
    if (around.host_names.contains(host)) {
        return program;
    }
    if (!around.mpi) {
        return ssh_command(host, {question.ssh_port, question.ssh_identity}, program);
    }
    MpiRequest request;
    request.shares = {{host, 1}};
    request.as_root = around.is_root;
    request.ssh_port = question.ssh_port;
    request.ssh_identity = question.ssh_identity;
    request.program = std::move(program);
    Result<MpiCommand> command = mpi_command(*around.mpi, request);
    RUEDA_RETURN_IF_FAILED(command.status());
    return std::move(command.value().words);
}

}  // namespace

HostAnswer read_host_answer(std::string_view host, std::string_view output) {
    HostAnswer answer;
    answer.host = host;
    bool is_inside = false;
    std::string first_line;
    while (!output.empty()) {
        const std::string_view line = take_until(output, '\n');
        is_inside = is_inside || line == "{";
        if (is_inside) {
            answer.json += std::string(line) + "\n";
            if (line == "}") {
                return answer;
            }
        } else if (line.starts_with(kErrorMark) && answer.problem.empty()) {
            answer.problem = printable_answer(line.substr(kErrorMark.size()));
        } else if (first_line.empty() && has_words(line)) {
            first_line = printable_answer(line);
        }
    }
    answer.json.clear();
    if (answer.problem.empty()) {
        answer.problem = first_line.empty() ? "it did not answer" : first_line;
    }
    return answer;
}

std::string printable_answer(std::string_view text) { return base::printable(trimmed(text)); }

bool has_words(std::string_view line) { return line.find_first_not_of(" \t\r-") != std::string_view::npos; }

Result<HostCommands> commands_for(const HostsQuestion& question) {
    if (question.hosts.size() > kMostHostsAtOnce) {
        return failure(ErrorCode::invalid_argument, "{} hosts are named; expected at most {}", question.hosts.size(),
                       kMostHostsAtOnce);
    }
    Result<Surroundings> around = look_around(/*mpi_is_wanted=*/true);
    if (!around.is_ok()) {  // ruedarun does not know the mpirun in PATH, so the hosts are asked through ssh
        around = look_around(/*mpi_is_wanted=*/false);
    }
    RUEDA_RETURN_IF_FAILED(around.status());
    HostCommands commands;
    for (std::size_t i = 0; i < question.hosts.size(); ++i) {
        Result<std::vector<std::string>> command = command_for(i, question, around.value());
        RUEDA_RETURN_IF_FAILED(command.status());
        commands.words.push_back(std::move(command).value());
    }
    commands.environment = std::move(around.value().environment);
    return commands;
}

Result<std::vector<HostAnswer>> ask_hosts(const HostsQuestion& question) {
    const Result<HostCommands> commands = commands_for(question);
    RUEDA_RETURN_IF_FAILED(commands.status());
    const std::chrono::milliseconds time = question.time + kStartTime;
    const Result<std::vector<CapturedRun>> runs =
        run_all_captured(commands.value().words, commands.value().environment, {time, time}, kMostHostsAtOnce);
    RUEDA_RETURN_IF_FAILED(runs.status());
    std::vector<HostAnswer> answers;
    for (std::size_t i = 0; i < question.hosts.size(); ++i) {
        const CapturedRun& run = runs.value()[i];
        answers.push_back(read_host_answer(question.hosts[i], run.text));
        if (answers.back().json.empty() && !run.in_time) {
            answers.back().problem =
                fmt::format("it did not answer within {} s", std::chrono::ceil<std::chrono::seconds>(time).count());
        }
    }
    return answers;
}

}  // namespace rueda::launcher
