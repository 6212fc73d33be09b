// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The Rueda authors
// Fuzzes the texts that ruedarun reads: files, variables and options of other programs and of people, and reports of
// its supervisors. The first byte chooses the reading function. An accepted text must have all properties that the
// launch plan relies on. A refused text must give a one-line error.
#include <algorithm>
#include <cstdint>
#include <cstdlib>
#include <map>
#include <string>
#include <string_view>
#include <vector>

#include "base/network/endpoint_list.hpp"
#include "launcher/connection/control_address.hpp"
#include "launcher/connection/reachability.hpp"
#include "launcher/doctor/doctor.hpp"
#include "launcher/gpus/rank_gpus.hpp"
#include "launcher/hosts/hosts.hpp"
#include "launcher/hosts/placement.hpp"
#include "launcher/jobs/job_note.hpp"
#include "launcher/options/config_file.hpp"
#include "launcher/options/custom_mpi_options.hpp"
#include "launcher/options/env_file.hpp"
#include "launcher/options/options.hpp"
#include "launcher/plan/mpi_launcher.hpp"
#include "launcher/plan/torch_variables.hpp"
#include "launcher/repeated_steps.hpp"
#include "launcher/start/master_choice.hpp"
#include "launcher/supervisor/agent_order.hpp"
#include "launcher/supervisor/supervisor_protocol.hpp"
#include "launcher/top/choose_job.hpp"

namespace {

using namespace rueda;
using namespace rueda::launcher;

void expect(bool holds) {
    if (!holds) {
        std::abort();
    }
}

template <class T>
bool accepted(const Result<T>& result) {
    if (!result.is_ok()) {
        expect(result.status().code() == ErrorCode::invalid_argument);
        expect(!result.status().message().empty() && result.status().message().find('\n') == std::string::npos);
    }
    return result.is_ok();
}

/// A name must not look like an option of mpirun or ssh, and must not contain a character that ends a word of a command
/// line.
void check_name(const std::string& name) {
    expect(!name.empty() && name.front() != '-');
    expect(name.find_first_of(" \t\n,'\"$;|&") == std::string::npos);
}

void check_hosts(const Result<std::vector<Host>>& hosts) {
    if (!accepted(hosts)) {
        return;
    }
    expect(!hosts.value().empty());
    for (const Host& host : hosts.value()) {
        check_name(host.name);
        expect(host.slots >= 0 && host.max_slots >= 0);
    }
    HostList list;
    list.hosts = hosts.value();
    list.origin = "-H";
    const Result<Placement> placement = place_ranks(list, 7, std::nullopt);
    if (accepted(placement)) {
        expect(ranks_of(placement.value()) == 7);
    }
}

void check_slurm(const std::string& text) {
    if (const auto names = expand_slurm_names(text); accepted(names)) {
        std::for_each(names.value().begin(), names.value().end(), check_name);
    }
    if (const auto counts = expand_slurm_counts(text); accepted(counts)) {
        expect(std::all_of(counts.value().begin(), counts.value().end(), [](int count) { return count > 0; }));
    }
    if (const auto list = hosts_of_slurm({{"SLURM_JOB_NODELIST", text}, {"SLURM_TASKS_PER_NODE", text}});
        accepted(list) && list.value()) {
        expect(!list.value()->hosts.empty());
    }
}

void check_variables(const std::vector<ExportedVariable>& variables) {
    for (const ExportedVariable& variable : variables) {
        expect(is_variable_name(variable.name));
        expect(!variable.value || variable.value->find('\n') == std::string::npos);
    }
}

void check_config(const std::string& text) {
    (void)accepted(parse_config_file(text, "f"));
    const base::FileReader read = [&](const std::string&) { return std::optional(text); };
    const std::vector<std::string> words = {"--config", "f", "program"};
    if (const auto line = parse_command_line(words, read); accepted(line) && !line.value().text) {
        expect(line.value().options.program == std::vector<std::string>{"program"});
        expect(!line.value().options.ranks || *line.value().options.ranks >= 1);
    }
}

/// Reads supervisors' reports about programs that have ended. Each line of the text is one report.
void check_reports(const std::string& text) {
    RepeatedSteps repeated;
    base::StepSpan all;
    for (std::size_t begin = 0; begin < text.size();) {
        const std::size_t end = std::min(text.find('\n', begin), text.size());
        std::string report = text.substr(begin, end - begin);
        std::replace(report.begin(), report.end(), ';', '\n');  // a semicolon stands for a line break inside a report
        begin = end + 1;
        RankEnd ended;
        read_report(report, ended);
        const base::StepSpan& steps = ended.steps;
        expect(steps.is_known() ? steps.first >= 0 && steps.last >= steps.first : steps.last == -1);
        expect(ended.abort_reason.find('\n') == std::string::npos && ended.abort_reason.size() <= 704);
        const OomKills& kills = ended.oom_kills;
        expect(kills.counted_in.find('\n') == std::string::npos && kills.counted_in.size() <= 256);
        const std::string again = encode_report(ended);
        RankEnd same;
        read_report(again, same);
        expect(encode_report(same) == again);
        repeated.add(steps, steps.last % 2 == 0);
        all = joined(all, steps);
        expect(repeated.count() >= 0 && repeated.are_known() == all.is_known() && repeated.reached() == all.last);
    }
    const Greeting greeting = parse_greeting(text);
    expect(encode_greeting(parse_greeting(encode_greeting(greeting))) == encode_greeting(greeting));
}

/// Reads texts that ruedarun and its supervisors send each other in frames.
void check_texts_of_frames(const std::string& text) {
    const std::vector<std::string> endpoints = parse_endpoints(text);
    expect(endpoints.size() <= 16 && parse_endpoints(encode_endpoints(endpoints)) == endpoints);
    MasterChoice choice(endpoints, {1}, {});
    choice.take(1, text);
    const std::string master = choice.address("usual");
    expect(endpoints.empty() == (master == "usual"));
    expect(!master.empty() && master.find_first_of(" \n,") == std::string::npos);
    const std::vector<EnvironmentChange> variables = decode_variables(text);
    for (const EnvironmentChange& variable : variables) {
        expect(!variable.name.empty() && variable.name.find_first_of("=\n") == std::string::npos && variable.value);
    }
    expect(encode_variables(decode_variables(encode_variables(variables))) == encode_variables(variables));
    const std::string gpus = encode_gpus(decode_gpus(text.substr(0, text.find('\n'))));
    expect(gpus.find('\n') == std::string::npos && encode_gpus(decode_gpus(gpus)) == gpus);
}

/// Reads the order for the agent of a host. Each semicolon of the text stands for a zero byte.
void check_order(std::string text) {
    std::replace(text.begin(), text.end(), ';', '\0');
    if (const auto order = parse_order(text)) {
        expect(order->first_rank >= 0 && order->ranks >= 0);
        const std::string again = encode_order(*order);
        const auto same = parse_order(again);
        expect(same && encode_order(*same) == again);
    }
}

void check_rendezvous(const std::string& text) {
    if (const auto endpoints = base::tcp_endpoints(text)) {
        expect(!endpoints->empty() && endpoints->size() <= base::kMostEndpoints);
        expect(base::tcp_endpoints(base::tcp_rendezvous(*endpoints)) == endpoints);
    }
}

void check(unsigned reader, const std::string& text) {
    switch (reader % 16) {
        case 0:
            return check_hosts(parse_host_option(text));
        case 1:
            return check_hosts(parse_host_file(text, "f"));
        case 2:
            return check_slurm(text);
        case 3:
            if (const auto list = hosts_of_sagemaker({{"SM_HOSTS", text}}); accepted(list) && list.value()) {
                check_hosts(list.value()->hosts);
            }
            return;
        case 4:
            if (const auto variables = parse_env_file(text, "f"); accepted(variables)) {
                check_variables(variables.value());
            }
            return;
        case 5:
            return check_config(text);
        case 6:
            if (const auto options = parse_custom_mpi_options(text); accepted(options)) {
                for (const ExportedVariable& variable : options.value().variables) {
                    expect(is_variable_name(variable.name));
                }
            }
            return;
        case 8:
            return check_reports(text);
        case 9:
            return check_texts_of_frames(text);
        case 10:
            return check_order(text);
        case 11:
            return check_rendezvous(text);
        case 12:
            if (const auto job = parse_launched_job(text)) {
                expect(job->hosts.size() > 1);
                const auto again = parse_launched_job(describe_job(job->token, job->hosts));
                expect(again && again->token == job->token && again->hosts == job->hosts);
            }
            return;
        default:
            (void)recognise_mpi_launcher("m", text);
            (void)read_doctor_echo("h", text, 0, 1);
            if (const auto address = parse_control_address(text); accepted(address)) {
                expect(parse_control_address(format_control_address(address.value())).is_ok());
            }
    }
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* bytes, std::size_t size) {
    if (size > 0) {
        check(bytes[0], {reinterpret_cast<const char*>(bytes) + 1, size - 1});
    }
    return 0;
}
