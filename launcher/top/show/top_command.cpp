// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The Rueda authors
#include "launcher/top/show/top_command.hpp"

#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <cstdio>
#include <optional>
#include <thread>
#include <vector>

#include "base/numbers.hpp"
#include "base/text.hpp"
#include "launcher/hosts/hosts.hpp"
#include "launcher/jobs/find_jobs.hpp"
#include "launcher/options/command_app.hpp"
#include "launcher/options/text_parts.hpp"
#include "launcher/top/choose_job.hpp"
#include "launcher/top/hosts/ask_hosts.hpp"
#include "launcher/top/interval.hpp"
#include "launcher/top/merge_hosts.hpp"
#include "launcher/top/screen.hpp"
#include "launcher/top/show/live_hosts.hpp"
#include "launcher/top/show/live_screen.hpp"
#include "launcher/top/show/stream_views.hpp"
#include "launcher/top/top_view.hpp"

namespace rueda::launcher {

namespace {

constexpr int kNoJob = 1;

constexpr double kShortestInterval = 0.1;
constexpr double kLongestInterval = 3600;

struct TopOptions {
    std::string job;
    bool once = false;
    bool as_json = false;
    bool as_stream = false;
    bool all_hosts = false;
    std::string hosts_text;
    std::string ssh_port_text;
    HostsQuestion question;
    std::string interval_text = "2";
    std::chrono::nanoseconds interval{};
};

void add_options(CommandApp& command, TopOptions& options) {
    CLI::App& app = command.options();
    app.add_option("JOB", options.job, "Id of the job, or number of one of its processes (default: the only job here)")
        ->type_name("");
    app.add_flag("--once", options.once, "Print one interval and end, instead of showing a screen");
    app.add_flag("--json", options.as_json, "The same in JSON");
    // rueda passes this hidden option when it starts itself on other hosts
    app.add_flag("--stream", options.as_stream)->group("");
    app.add_option("--interval", options.interval_text, "Length of an interval (default: 2)")
        ->type_name("SECONDS")
        ->multi_option_policy(CLI::MultiOptionPolicy::TakeLast);
    app.add_option("-H,--hosts", options.hosts_text, "Show the ranks of the jobs on these hosts")
        ->type_name("HOST,HOST");
    app.add_flag("--all-hosts", options.all_hosts, "The same for all hosts of a job that ruedarun has started");
    app.add_option("--ssh-port", options.ssh_port_text, "Port of ssh on the other hosts")->type_name("PORT");
    app.add_option("--ssh-identity-file", options.question.ssh_identity, "Key file for ssh")->type_name("FILE");
}

/// Whether the user gets a live screen. If not, the command prints one interval.
bool is_live(const TopOptions& options) { return !options.once && !options.as_json && ::isatty(STDOUT_FILENO) == 1; }

Status read_interval(TopOptions& options) {
    const std::optional<double> seconds = base::parse_real(options.interval_text);
    if (!seconds || *seconds < kShortestInterval || *seconds > kLongestInterval) {
        return failure(ErrorCode::invalid_argument, "--interval is {}; expected {} to {} seconds",
                       base::quote(options.interval_text), kShortestInterval, kLongestInterval);
    }
    options.interval = std::chrono::duration_cast<std::chrono::nanoseconds>(std::chrono::duration<double>(*seconds));
    return {};
}

/// Reads the ids of the job. Each host has its own id for the job.
Status read_jobs(const std::string& text, HostsQuestion& question) {
    std::string_view rest = text;
    while (!rest.empty()) {
        const std::string_view job = take_until(rest, ',');
        // The text becomes an argument of rueda on the host. If it began with '-', rueda would take it for an option.
        if (job.empty() || job.front() == '-') {
            return failure(ErrorCode::invalid_argument, "the jobs are {}; expected one for each host, as in j17,j4",
                           base::quote(text));
        }
        question.jobs.emplace_back(job);
    }
    if (!question.jobs.empty() && question.jobs.size() != question.hosts.size()) {
        return failure(ErrorCode::invalid_argument,
                       "{} jobs are named for {} hosts; expected one for each host, because a job has another id on "
                       "each",
                       question.jobs.size(), question.hosts.size());
    }
    return {};
}

/// Finds the hosts of the job. ruedarun has told them to the job's ranks.
Status find_all_hosts(TopOptions& options) {
    const Result<Job> job = choose_job(find_jobs(), options.job);
    RUEDA_RETURN_IF_FAILED(job.status());
    std::optional<LaunchedJob> launched = launched_job(job.value());
    if (!launched) {
        return failure(ErrorCode::invalid_argument,
                       "the hosts of job {} are not known, because it runs on one host, or because ruedarun has not "
                       "started it; name the hosts with --hosts",
                       job.value().id);
    }
    options.question.hosts = std::move(launched->hosts);
    options.question.jobs.assign(options.question.hosts.size(), std::string(kTokenMark) + launched->token);
    return {};
}

Status find_named_hosts(TopOptions& options) {
    const Result<std::vector<Host>> hosts = parse_host_option(options.hosts_text);
    RUEDA_RETURN_IF_FAILED(hosts.status());
    for (const Host& host : hosts.value()) {
        options.question.hosts.push_back(host.name);
    }
    return read_jobs(options.job, options.question);
}

/// Fills in those fields of options.question that are computed from other options.
Status read_question(TopOptions& options) {
    if (!options.ssh_port_text.empty()) {
        constexpr int kMostPort = 65535;
        options.question.ssh_port = base::parse_integer<int>(options.ssh_port_text);
        if (options.question.ssh_port.value_or(0) < 1 || *options.question.ssh_port > kMostPort) {
            return failure(ErrorCode::invalid_argument, "--ssh-port is {}; expected a port from 1 to {}",
                           base::quote(options.ssh_port_text), kMostPort);
        }
    }
    options.question.arguments = {"top", is_live(options) ? "--stream" : "--json", "--interval", options.interval_text};
    options.question.time = std::chrono::ceil<std::chrono::milliseconds>(options.interval);
    return {};
}

void print(const TopView& view) {
    for (const std::string& line : render(screen_of(view), {}, ::isatty(STDOUT_FILENO) == 1)) {
        fmt::print("{}\n", line);
    }
}

/// Shows all hosts on a screen, or prints one interval.
int show_hosts(TopOptions& options) {
    Status status = options.all_hosts ? Status() : find_named_hosts(options);
    if (status.is_ok()) {
        status = read_question(options);
    }
    if (!status.is_ok()) {
        return refuse_command(status, kRuedaCalledWrongly);
    }
    if (options.all_hosts) {
        if (const Status found = find_all_hosts(options); !found.is_ok()) {
            return refuse_command(found, kNoJob);
        }
    }
    if (is_live(options)) {
        return show_live_hosts(options.question, options.interval);
    }
    const Result<std::vector<HostAnswer>> answers = ask_hosts(options.question);
    if (!answers.is_ok()) {
        return refuse_command(answers.status(), kNoJob);
    }
    const TopView view = merge_hosts(answers.value());
    if (options.as_json) {
        fmt::print("{}", hosts_as_json(answers.value()));
    } else if (!view.rows.empty()) {
        print(view);
    } else {
        for (const std::string& problem : view.problems) {
            fmt::print(stderr, "rueda: {}\n", problem);
        }
    }
    return view.rows.empty() ? kNoJob : 0;
}

/// Prints one interval.
int show_once(const Job& job, const TopOptions& options) {
    Gpus gpus;
    Interval interval(job, gpus, options.interval);
    while (!interval.is_over()) {
        std::this_thread::sleep_for(interval.until_next_look());
        interval.look_if_due();
    }
    const TopView view = interval.finish();
    if (!view.job.has_processes()) {
        return refuse_command(failure(ErrorCode::invalid_argument, "job {} has ended", job.id), kNoJob);
    }
    if (options.as_json) {
        fmt::print("{}", view_as_json(view));
        return 0;
    }
    print(view);
    return 0;
}

}  // namespace

int run_top(std::span<const std::string> arguments) {
    CommandApp command(
        {"rueda top", "[JOB] [--once] [--json] [--interval SECONDS] [--all-hosts | --hosts HOST,HOST]",
         "Shows what the ranks of a job on this host are doing, and which rank the others wait for. It reads the "
         "memory\n"
         "that the ranks share, and /proc. So it needs no help from the program, and does not disturb it.\n"
         "The key q ends it.",
         "Examples:\n"
         "  rueda top                   the only job of this host\n"
         "  rueda top j1034             this one (rueda ps lists them)\n"
         "  rueda top --interval 10     a new picture every 10 s\n"
         "  rueda top --once            2 s, printed as text\n"
         "  rueda top --json            the same for scripts\n"
         "  rueda top --all-hosts       the same for all hosts of this job, which ruedarun has started\n"
         "  rueda top --hosts a,b       the ranks of the only jobs on these hosts\n"
         "  rueda top --hosts a,b j17,j4   j17 on host a, and j4 on host b\n"
         "\n"
         "Exit status: 0; 1 if there is no such job, or if it ends before the first picture; 3 if rueda was called\n"
         "wrongly.\n"});
    TopOptions options;
    add_options(command, options);
    if (const std::optional<int> status = command.parse(arguments)) {
        return *status;
    }
    if (const Status status = read_interval(options); !status.is_ok()) {
        return refuse_command(status, kRuedaCalledWrongly);
    }
    if (options.all_hosts && !options.hosts_text.empty()) {
        return refuse_command({ErrorCode::invalid_argument, "--all-hosts and --hosts are given; expected one of them"},
                              kRuedaCalledWrongly);
    }
    if (options.all_hosts || !options.hosts_text.empty()) {
        return show_hosts(options);
    }
    Result<Job> job = choose_job(find_jobs(), options.job);
    if (!job.is_ok()) {
        return refuse_command(job.status(), kNoJob);
    }
    if (options.as_stream) {
        return stream_views(job.value(), options.interval);
    }
    return is_live(options) ? show_live(job.value(), options.interval) : show_once(job.value(), options);
}

}  // namespace rueda::launcher
