// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The Rueda authors
#include "launcher/plan.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <set>
#include <string_view>

#include "base/config.hpp"
#include "base/environment.hpp"
#include "base/text.hpp"

namespace rueda::launcher {

namespace {

using Environment = std::map<std::string, std::string>;

constexpr std::string_view kControlPlane = "RUEDA_CONTROL_PLANE";

/// Left from another job in the caller's shell, these would make every rank believe to be the same one.
constexpr std::array<std::string_view, 9> kIdentityVariables = {
    "RUEDA_RANK",   "RUEDA_SIZE",   "RUEDA_LOCAL_RANK",   "RUEDA_LOCAL_SIZE",   "RUEDA_RENDEZVOUS",
    "HOROVOD_RANK", "HOROVOD_SIZE", "HOROVOD_LOCAL_RANK", "HOROVOD_LOCAL_SIZE",
};

class Planner {
public:
    Planner(const Options& options, const Surroundings& surroundings) : options_(options), around_(surroundings) {
        plan_.ranks = options.ranks;
        plan_.program = options.program;
        plan_.grace = options.grace;
        plan_.output_dir = options.output_dir;
    }

    Result<LaunchPlan> make() {
        RUEDA_RETURN_IF_FAILED(choose_way());
        choose_output();
        forget_identity();
        choose_control_plane();
        choose_threads();
        unbuffer_python();
        RUEDA_RETURN_IF_FAILED(export_variables());
        RUEDA_RETURN_IF_FAILED(check_settings());
        if (plan_.way == LaunchWay::mpirun) {
            build_mpirun();
        } else {
            plan_.rendezvous = around_.rendezvous;
            choose_groups();
        }
        return std::move(plan_);
    }

private:
    template <class... Args>
    void say(fmt::format_string<Args...> text, Args&&... args) {
        plan_.reasons.push_back(fmt::format(text, std::forward<Args>(args)...));
    }

    void set(std::string_view name, std::optional<std::string> value) {
        std::erase_if(plan_.environment, [name](const EnvironmentChange& change) { return change.name == name; });
        plan_.environment.push_back({std::string(name), std::move(value)});
    }

    [[nodiscard]] bool user_set(std::string_view name) const {
        const auto found = around_.environment.find(std::string(name));
        return (found != around_.environment.end() && !found->second.empty()) || exports(name);
    }

    [[nodiscard]] bool exports(std::string_view name) const {
        return std::any_of(options_.exported.begin(), options_.exported.end(),
                           [name](const ExportedVariable& variable) { return variable.name == name; });
    }

    [[nodiscard]] bool more_ranks_than_cores() const { return static_cast<double>(options_.ranks) > around_.cores; }

    Status choose_way() {
        if (options_.no_mpi) {
            plan_.way = LaunchWay::direct;
            say("started without mpirun: --no-mpi");
        } else if (around_.mpi) {
            plan_.way = LaunchWay::mpirun;
            say("started by {} ({})", around_.mpi->path, around_.mpi->version);
        } else if (!options_.mpi_args.empty()) {
            return failure(ErrorCode::invalid_argument, "--mpi-args needs an mpirun, but {}", around_.no_mpi_reason);
        } else {
            plan_.way = LaunchWay::direct;
            say("started without mpirun: {}", around_.no_mpi_reason);
        }
        say("{} on {:.3g} usable {}{}", options_.ranks == 1 ? "1 rank" : fmt::format("{} ranks", options_.ranks),
            around_.cores, around_.cores == 1 ? "core" : "cores",
            more_ranks_than_cores() ? ": more ranks than cores, they take turns" : "");
        return {};
    }

    void choose_output() {
        if (!options_.output_dir.empty()) {
            plan_.output = OutputMode::files;
        } else {
            plan_.output = options_.ranks == 1 ? OutputMode::plain : OutputMode::prefixed;
        }
    }

    /// A program that reads the terminal must be in its foreground group. Several ranks cannot share a keyboard.
    void choose_groups() {
        plan_.own_groups = !(options_.ranks == 1 && around_.stdin_is_terminal);
        plan_.first_rank_reads_stdin = !(options_.ranks > 1 && around_.stdin_is_terminal);
    }

    void forget_identity() {
        for (const std::string_view name : kIdentityVariables) {
            if (around_.environment.contains(std::string(name))) {
                set(name, std::nullopt);
                say("{} was set in the environment and is removed: it is the launcher's to set", name);
            }
        }
    }

    void choose_control_plane() {
        if (plan_.way == LaunchWay::mpirun && user_set(kControlPlane)) {
            say("{} is left as you set it", kControlPlane);
            return;
        }
        set(kControlPlane, plan_.way == LaunchWay::mpirun ? "mpi" : "socket");
        say("{}={}", kControlPlane, plan_.way == LaunchWay::mpirun ? "mpi" : "socket");
    }

    /// Libraries that start a thread for each core in every rank run ranks × cores threads, and all of them crawl.
    void choose_threads() {
        constexpr std::string_view kOpenMp = "OMP_NUM_THREADS";
        if (user_set(kOpenMp)) {
            say("{} is left as you set it", kOpenMp);  // MKL and OpenBLAS follow it
            return;
        }
        const int threads = std::max(1, static_cast<int>(around_.cores) / options_.ranks);
        for (const std::string_view name :
             {kOpenMp, std::string_view("MKL_NUM_THREADS"), std::string_view("OPENBLAS_NUM_THREADS")}) {
            if (!user_set(name)) {
                set(name, std::to_string(threads));
                say("{}={}: cores divided by ranks", name, threads);
            }
        }
    }

    /// Python keeps what it prints into a pipe or file until 8 KiB have come together; a dead rank's last words would
    /// be lost.
    void unbuffer_python() {
        constexpr std::string_view kUnbuffered = "PYTHONUNBUFFERED";
        if (plan_.output != OutputMode::plain && !user_set(kUnbuffered)) {
            set(kUnbuffered, "1");
            say("{}=1: lines of Python programs appear at once", kUnbuffered);
        }
    }

    Status export_variables() {
        for (const ExportedVariable& variable : options_.exported) {
            const auto found = around_.environment.find(variable.name);
            if (variable.value) {
                set(variable.name, variable.value);
            } else if (found == around_.environment.end()) {
                return failure(ErrorCode::invalid_argument,
                               "-x {0}: {0} is not set in the environment; write -x {0}=value", variable.name);
            } else {
                set(variable.name, found->second);
            }
        }
        return {};
    }

    /// A wrong setting is said once, here, instead of by every rank.
    Status check_settings() const {
        const Result<base::Config> config =
            base::read_config(base::environment_of(changed_environment(around_.environment, plan_.environment)));
        return config.status();
    }

    void build_mpirun() {
        MpiRequest request;
        request.ranks = options_.ranks;
        request.more_ranks_than_cores = more_ranks_than_cores();
        request.as_root = around_.is_root;
        request.travelling = travelling_variables();
        request.user_args = options_.mpi_args;
        MpiCommand command = mpi_command(*around_.mpi, request);
        for (const std::string& reason : command.reasons) {
            say("{}", reason);
        }
        plan_.mpirun = std::move(command.words);
        plan_.supervisor_socket = around_.supervisor_socket;
        plan_.mpirun.insert(plan_.mpirun.end(),
                            {around_.own_path, "--rank-supervisor", around_.supervisor_socket, "--"});
        plan_.mpirun.insert(plan_.mpirun.end(), options_.program.begin(), options_.program.end());
    }

    /// Our settings, what was set above, and what the user named.
    [[nodiscard]] std::vector<std::string> travelling_variables() const {
        std::set<std::string> names;
        for (const auto& [name, value] : changed_environment(around_.environment, plan_.environment)) {
            if (name.starts_with("RUEDA_") || name.starts_with("HOROVOD_")) {
                names.insert(name);
            }
        }
        for (const EnvironmentChange& change : plan_.environment) {
            if (change.value) {
                names.insert(change.name);
            }
        }
        return {names.begin(), names.end()};
    }

    const Options& options_;
    const Surroundings& around_;
    LaunchPlan plan_;
};

}  // namespace

Result<LaunchPlan> make_plan(const Options& options, const Surroundings& surroundings) {
    return Planner(options, surroundings).make();
}

std::vector<EnvironmentChange> rank_environment(const LaunchPlan& plan, int rank) {
    const std::string number = std::to_string(rank);
    const std::string size = std::to_string(plan.ranks);
    return {{"RUEDA_RANK", number},
            {"RUEDA_SIZE", size},
            {"RUEDA_LOCAL_RANK", number},
            {"RUEDA_LOCAL_SIZE", size},
            {"RUEDA_RENDEZVOUS", plan.rendezvous}};
}

Environment changed_environment(Environment environment, const std::vector<EnvironmentChange>& changes) {
    for (const EnvironmentChange& change : changes) {
        if (change.value) {
            environment[change.name] = *change.value;
        } else {
            environment.erase(change.name);
        }
    }
    return environment;
}

std::string output_file(const std::string& folder, int rank, const char* ending) {
    return fmt::format("{}/rank.{}.{}", folder, rank, ending);
}

}  // namespace rueda::launcher
