// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The Rueda authors
#include "launcher/plan/plan.hpp"

#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <catch2/catch.hpp>
#include <string>
#include <utility>
#include <vector>

#include "base/system/cores.hpp"
#include "launcher/hosts/network.hpp"
#include "launcher/plan/describe_plan.hpp"
#include "launcher/plan/host_settings.hpp"
#include "launcher/plan/srun_task.hpp"
#include "launcher/plan/unknown_hosts.hpp"

namespace rueda::launcher {
namespace {

using Words = std::vector<std::string>;

Options two_ranks() {
    Options options;
    options.ranks = 2;
    options.program = {"./train", "--lr", "0.1"};
    return options;
}

Surroundings machine_with_mpi() {
    Surroundings around;
    around.cores = 4;
    around.environment = {{"PATH", "/bin"}};
    around.mpi = MpiLauncher{"/usr/bin/mpirun", MpiKind::open_mpi, "Open MPI 4.1.4"};
    around.own_path = "/usr/bin/ruedarun";
    around.rendezvous = "@rueda-00ff";
    around.master_port = 40123;
    return around;
}

Surroundings machine_without_mpi() {
    Surroundings around = machine_with_mpi();
    around.mpi.reset();
    around.no_mpi_reason = "there is no mpirun in PATH";
    return around;
}

Surroundings cluster() {
    Surroundings around = machine_with_mpi();
    around.host_names = {"here", "localhost", "10.0.0.1"};
    around.environment = {{"PATH", "/bin"}, {"HOME", "/root"}, {"NCCL_DEBUG", "INFO"}, {"RUEDA_LOG_LEVEL", "info"}};
    return around;
}

Options on_hosts(const std::string& hosts) {
    Options options;
    options.hosts = hosts;
    options.program = {"./train"};
    return options;
}

LaunchPlan planned(const Options& options, const Surroundings& around) {
    Result<LaunchPlan> plan = make_plan(options, around);
    INFO(plan.status().message());
    REQUIRE(plan.is_ok());
    return std::move(plan).value();
}

/// Returns a variable's value in the ranks' environment, or "(none)".
std::string variable(const LaunchPlan& plan, const Surroundings& around, const std::string& name) {
    const auto environment = changed_environment(around.environment, plan.environment);
    const auto found = environment.find(name);
    return found == environment.end() ? "(none)" : found->second;
}

/// Returns whether the command contains these words in this order, without other words between.
bool has(const Words& command, const Words& words) {
    return std::search(command.begin(), command.end(), words.begin(), words.end()) != command.end();
}

bool says(const LaunchPlan& plan, const std::string& text) {
    return std::any_of(plan.reasons.begin(), plan.reasons.end(),
                       [&](const std::string& reason) { return reason.find(text) != std::string::npos; });
}

TEST_CASE("mpirun starts the ranks if there is one", "[unit]") {
    const LaunchPlan plan = planned(two_ranks(), machine_with_mpi());
    CHECK(plan.way == LaunchWay::mpirun);
    CHECK(plan.mpirun.front() == "/usr/bin/mpirun");
    CHECK(has(plan.mpirun, {"-np", "2"}));
    CHECK(has(plan.mpirun, {"--bind-to", "none"}));
    CHECK(has(plan.mpirun, {"--mca", "orte_abort_on_non_zero_status", "0"}));
    CHECK(has(plan.mpirun, {"--mca", "orte_enable_recovery", "1"}));
    CHECK(has(plan.mpirun, {"--mca", "mpi_yield_when_idle", "0"}));
    CHECK_FALSE(has(plan.mpirun, {"--allow-run-as-root"}));
    const Words tail = {"/usr/bin/ruedarun", "--rank-supervisor", "--", "./train", "--lr", "0.1"};
    REQUIRE(plan.mpirun.size() > tail.size());
    CHECK(Words(plan.mpirun.end() - static_cast<std::ptrdiff_t>(tail.size()), plan.mpirun.end()) == tail);
    CHECK(variable(plan, machine_with_mpi(), "RUEDA_CONTROL_PLANE") == "mpi");
    CHECK(variable(plan, machine_with_mpi(), "RUEDA_RENDEZVOUS") == "(none)");
}

TEST_CASE("without mpirun, or with --no-mpi, ruedarun starts the ranks", "[unit]") {
    Options options = two_ranks();
    const LaunchPlan without = planned(options, machine_without_mpi());
    CHECK(without.way == LaunchWay::direct);
    CHECK(says(without, "there is no mpirun in PATH"));
    options.no_mpi = true;
    const LaunchPlan plan = planned(options, machine_with_mpi());
    CHECK(plan.way == LaunchWay::direct);
    CHECK(plan.mpirun.empty());
    CHECK(variable(plan, machine_with_mpi(), "RUEDA_CONTROL_PLANE") == "socket");
    const auto rank = changed_environment({}, rank_environment(plan, 1));
    CHECK(rank == std::map<std::string, std::string>{{"RUEDA_RANK", "1"},
                                                     {"RUEDA_SIZE", "2"},
                                                     {"RUEDA_LOCAL_RANK", "1"},
                                                     {"RUEDA_LOCAL_SIZE", "2"},
                                                     {"RUEDA_RENDEZVOUS", "@rueda-00ff"},
                                                     {"RANK", "1"},
                                                     {"WORLD_SIZE", "2"},
                                                     {"LOCAL_RANK", "1"},
                                                     {"LOCAL_WORLD_SIZE", "2"},
                                                     {"GROUP_RANK", "0"},
                                                     {"NODE_RANK", "0"},
                                                     {"GROUP_WORLD_SIZE", "1"},
                                                     {"MASTER_ADDR", "127.0.0.1"},
                                                     {"MASTER_PORT", "40123"}});
}

TEST_CASE("the variables of torchrun", "[unit]") {
    Options options = two_ranks();
    Surroundings around = machine_without_mpi();
    around.environment["RANK"] = "9";
    around.environment["TORCHELASTIC_RUN_ID"] = "outer";
    around.environment["TORCHELASTIC_SIGNALS_TO_HANDLE"] = "SIGTERM";
    around.environment["ROLE_NAME"] = "default";
    around.environment["ROLE_ARN"] = "the user's";
    SECTION("those of an outer job are replaced or removed") {
        const LaunchPlan plan = planned(options, around);
        // the value 9 of the outer job is removed; ruedarun later sets RANK for each rank
        CHECK(variable(plan, around, "RANK") == "(none)");
        for (const char* const name : {"TORCHELASTIC_RUN_ID", "TORCHELASTIC_SIGNALS_TO_HANDLE", "ROLE_NAME"}) {
            CHECK(variable(plan, around, name) == "(none)");
            CHECK(says(plan, fmt::format("{} was set in the environment and is removed", name)));
        }
        CHECK(variable(plan, around, "ROLE_ARN") == "the user's");
        CHECK(says(plan, "MASTER_ADDR, MASTER_PORT: set for each rank"));
    }
    SECTION("every rank gets the variables that the user has set, with the user's values") {
        options.exported = {{"RANK", "5"}, {"MASTER_PORT", "4711"}};
        const LaunchPlan plan = planned(options, around);
        const auto rank =
            changed_environment(changed_environment(around.environment, plan.environment), rank_environment(plan, 1));
        CHECK(rank.at("RANK") == "5");
        CHECK(rank.at("MASTER_PORT") == "4711");
        CHECK(rank.at("LOCAL_RANK") == "1");
        CHECK_FALSE(says(plan, "RANK was set in the environment and is removed"));
    }
    SECTION("a pasted command sets what mpirun tells, but not what the user has given") {
        const auto with_mpi = machine_with_mpi();
        const auto supervisor_words = [&](const Options& asked) {
            const LaunchPlan plan = planned(asked, with_mpi);
            CHECK(says(plan, "MASTER_ADDR and MASTER_PORT are not set then") == asked.torch_variables);
            const auto& words = plan.mpirun_to_paste;
            const auto option = std::find(words.begin(), words.end(), "--rank-supervisor");
            const auto end = std::find(option, words.end(), "--");
            REQUIRE(end - option >= 1);
            return std::vector<std::string>(option + 1, end);
        };
        CHECK(supervisor_words(options).empty());
        options.exported = {{"RANK", "5"}, {"OTHER", "x"}, {"MASTER_PORT", "4711"}};
        CHECK(supervisor_words(options) == std::vector<std::string>{"RANK", "MASTER_PORT"});
        options.torch_variables = false;
        CHECK(supervisor_words(options) == std::vector<std::string>(kTorchVariables.begin(), kTorchVariables.end()));
    }
    SECTION("--no-torch-variables") {
        options.torch_variables = false;
        const LaunchPlan plan = planned(options, around);
        CHECK(variable(plan, around, "RANK") == "9");
        CHECK(variable(plan, around, "TORCHELASTIC_RUN_ID") == "outer");
        CHECK(torch_environment(plan, 1).empty());
    }
    SECTION("without a port") {
        around.master_port = 0;
        const LaunchPlan plan = planned(options, around);
        const auto rank = changed_environment({}, rank_environment(plan, 1));
        CHECK(rank.at("WORLD_SIZE") == "2");
        CHECK_FALSE(rank.contains("MASTER_ADDR"));
        CHECK(says(plan, "MASTER_PORT are not set"));
    }
}

TEST_CASE("the variables of torchrun, from mpirun's", "[unit]") {
    const auto found = [](const Environment& of_mpirun) {
        return changed_environment({}, torch_variables_of_mpirun(of_mpirun));
    };
    const Environment two_hosts = {{"OMPI_COMM_WORLD_RANK", "3"},
                                   {"OMPI_COMM_WORLD_SIZE", "4"},
                                   {"OMPI_COMM_WORLD_LOCAL_RANK", "1"},
                                   {"OMPI_COMM_WORLD_LOCAL_SIZE", "2"}};
    CHECK(found(two_hosts) ==
          Environment{{"RANK", "3"}, {"WORLD_SIZE", "4"}, {"LOCAL_RANK", "1"}, {"LOCAL_WORLD_SIZE", "2"}});
    const Environment one_host = {
        {"PMI_RANK", "1"}, {"PMI_SIZE", "2"}, {"MPI_LOCALRANKID", "1"}, {"MPI_LOCALNRANKS", "2"}};
    CHECK(found(one_host) == Environment{{"RANK", "1"},
                                         {"WORLD_SIZE", "2"},
                                         {"LOCAL_RANK", "1"},
                                         {"LOCAL_WORLD_SIZE", "2"},
                                         {"GROUP_RANK", "0"},
                                         {"NODE_RANK", "0"},
                                         {"GROUP_WORLD_SIZE", "1"}});
    CHECK(found({{"PMI_RANK", "1"}, {"PMI_SIZE", "2"}}) == Environment{{"RANK", "1"}, {"WORLD_SIZE", "2"}});
    CHECK(found({{"PMIX_RANK", "1"}}).empty());
}

TEST_CASE("hosts with the same name have different keys", "[unit]") {
    const std::string own = host_key({});
    CHECK(own == host_key({}));
    CHECK(own == host_key({{"RUEDA_HOSTNAME", host_name()}}));
    CHECK(own.starts_with(host_name() + " "));
    // The key has five parts with blanks between them: the host's name, the id of its boot, and three namespaces.
    CHECK(std::count(own.begin(), own.end(), ' ') == 4);
    CHECK(own != host_key({{"RUEDA_HOSTNAME", "another"}}));
    CHECK(host_key({{"HOROVOD_HOSTNAME", "b"}}) == host_key({{"RUEDA_HOSTNAME", "b"}}));
    CHECK(host_key({{"RUEDA_HOSTNAME", "a\nb"}}).find('\n') == std::string::npos);
}

TEST_CASE("parameters of MPI that name an agent", "[unit]") {
    CHECK(parameters_name_agent("# x\nbtl = ^ofi\n plm_rsh_agent=/opt/agent  # ours\n"));
    CHECK(parameters_name_agent("plm_ssh_agent = qrsh"));
    CHECK(parameters_name_agent("plm = slurm\r\n"));
    CHECK_FALSE(parameters_name_agent("plm_rsh_agent = ssh : rsh\nplm_rsh_agent = ssh\n"));
    CHECK_FALSE(parameters_name_agent("# plm_rsh_agent = /opt/agent\nplm_rsh_agent_x = y\nplm_rsh_agent\n"));
    CHECK_FALSE(parameters_name_agent(""));
}

TEST_CASE("positions of ranks on hosts, as torchrun describes them", "[unit]") {
    const std::vector<TorchPlace> places = torch_places({"b", "a", "b", "c"});
    REQUIRE(places.size() == 4);
    const auto numbers = [](const TorchPlace& one) {
        return std::vector<int>{one.rank, one.ranks, one.local_rank, one.local_ranks, one.host, one.hosts};
    };
    CHECK(numbers(places[0]) == std::vector<int>{0, 4, 0, 2, 0, 3});
    CHECK(numbers(places[1]) == std::vector<int>{1, 4, 0, 1, 1, 3});
    CHECK(numbers(places[2]) == std::vector<int>{2, 4, 1, 2, 0, 3});
    CHECK(numbers(places[3]) == std::vector<int>{3, 4, 0, 1, 2, 3});
    const auto copy = decode_variables(encode_variables(torch_variables(places[2], {"fd00::1", 4711})));
    REQUIRE(copy.size() == kTorchVariables.size());
    CHECK(changed_environment({}, copy).at("MASTER_ADDR") == "fd00::1");
    CHECK(decode_variables("no assignment\n=x\nA=b=c").size() == 1);
}

TEST_CASE("the grace is shorter after an abort, unless the user has set it", "[unit]") {
    Options options = two_ranks();
    CHECK(planned(options, machine_with_mpi()).grace == kDefaultGrace);
    CHECK(planned(options, machine_with_mpi()).grace_after_abort == kDefaultGraceAfterAbort);
    options.grace = std::chrono::milliseconds(7000);
    CHECK(planned(options, machine_with_mpi()).grace == std::chrono::milliseconds(7000));
    CHECK(planned(options, machine_with_mpi()).grace_after_abort == std::chrono::milliseconds(7000));
}

TEST_CASE("options for root, and for too few cores", "[unit]") {
    Surroundings around = machine_with_mpi();
    around.is_root = true;
    around.cores = 1.5;
    const LaunchPlan plan = planned(two_ranks(), around);
    CHECK(has(plan.mpirun, {"--allow-run-as-root"}));
    CHECK(has(plan.mpirun, {"--oversubscribe"}));
    CHECK(has(plan.mpirun, {"--mca", "mpi_yield_when_idle", "1"}));
    CHECK(says(plan, "more ranks than cores"));
    CHECK(variable(plan, around, "OMP_NUM_THREADS") == "1");
}

TEST_CASE("threads of libraries share the cores", "[unit]") {
    Surroundings around = machine_with_mpi();
    around.cores = 9;
    CHECK(variable(planned(two_ranks(), around), around, "OMP_NUM_THREADS") == "4");
    CHECK(variable(planned(two_ranks(), around), around, "MKL_NUM_THREADS") == "4");
    around.environment["MKL_NUM_THREADS"] = "7";
    CHECK(variable(planned(two_ranks(), around), around, "MKL_NUM_THREADS") == "7");
    CHECK(variable(planned(two_ranks(), around), around, "OPENBLAS_NUM_THREADS") == "4");
    around.environment.erase("MKL_NUM_THREADS");
    around.environment["OMP_NUM_THREADS"] = "3";  // other libraries also use this variable of OpenMP
    CHECK(variable(planned(two_ranks(), around), around, "OMP_NUM_THREADS") == "3");
    CHECK(variable(planned(two_ranks(), around), around, "MKL_NUM_THREADS") == "(none)");
    around.environment.erase("OMP_NUM_THREADS");
    Options options = two_ranks();
    options.exported = {{"OMP_NUM_THREADS", "5"}};
    CHECK(variable(planned(options, around), around, "OMP_NUM_THREADS") == "5");
    CHECK(variable(planned(options, around), around, "OPENBLAS_NUM_THREADS") == "(none)");
}

TEST_CASE("ruedarun says which threads the ranks get, and has a switch for it", "[unit]") {
    Surroundings around = machine_with_mpi();
    around.cores = 9;
    CHECK(planned(two_ranks(), around).about_threads ==
          "threads of each rank: OMP_NUM_THREADS=4 MKL_NUM_THREADS=4 OPENBLAS_NUM_THREADS=4 KMP_BLOCKTIME=1 (9 cores "
          "for 2 ranks)");
    CHECK(says(planned(two_ranks(), around), "KMP_BLOCKTIME=1: threads without work sleep"));
    around.environment["KMP_BLOCKTIME"] = "0";
    CHECK(variable(planned(two_ranks(), around), around, "KMP_BLOCKTIME") == "0");
    around.environment["OMP_NUM_THREADS"] = "3";
    CHECK(planned(two_ranks(), around).about_threads.empty());
    around.environment.erase("OMP_NUM_THREADS");

    Options options = two_ranks();
    options.thread_variables = false;
    const LaunchPlan without = planned(options, around);
    CHECK(variable(without, around, "OMP_NUM_THREADS") == "(none)");
    CHECK(variable(without, around, "MKL_NUM_THREADS") == "(none)");
    CHECK(without.about_threads.empty());
    CHECK(says(without, "OMP_NUM_THREADS and similar variables are not set: --no-thread-variables"));
    // The supervisors must not set these variables either.
    CHECK(has(without.mpirun, {"--rank-supervisor", "OMP_NUM_THREADS", "MKL_NUM_THREADS", "OPENBLAS_NUM_THREADS",
                               "KMP_BLOCKTIME", "--"}));

    // If mpirun binds the ranks, only the supervisor of a rank knows the rank's cores.
    options = two_ranks();
    options.mpi_args = {"--map-by", "slot:PE=2", "--bind-to", "core"};
    const LaunchPlan bound = planned(options, around);
    CHECK(variable(bound, around, "OMP_NUM_THREADS") == "(none)");
    CHECK(bound.about_threads == "each host sets OMP_NUM_THREADS, its usable cores divided by its ranks");
    CHECK(describe_as_shell(bound).find("# each host sets OMP_NUM_THREADS") == 0);
    options.no_mpi = true;
    options.mpi_args.clear();
    CHECK(variable(planned(options, around), around, "OMP_NUM_THREADS") == "4");
}

TEST_CASE("variables that the user set stay", "[unit]") {
    Surroundings around = machine_with_mpi();
    around.environment["RUEDA_CONTROL_PLANE"] = "single";
    around.environment["PYTHONUNBUFFERED"] = "0";
    const LaunchPlan plan = planned(two_ranks(), around);
    CHECK(variable(plan, around, "RUEDA_CONTROL_PLANE") == "single");
    CHECK(variable(plan, around, "PYTHONUNBUFFERED") == "0");
    Options direct = two_ranks();
    direct.no_mpi = true;
    CHECK(variable(planned(direct, around), around, "RUEDA_CONTROL_PLANE") == "socket");
    direct.exported = {{"RUEDA_CONTROL_PLANE", "single"}};
    CHECK(variable(planned(direct, around), around, "RUEDA_CONTROL_PLANE") == "single");
}

TEST_CASE("variables that identify a rank of another job are removed", "[unit]") {
    Surroundings around = machine_with_mpi();
    around.environment["RUEDA_RANK"] = "5";
    around.environment["HOROVOD_SIZE"] = "8";
    const LaunchPlan plan = planned(two_ranks(), around);
    CHECK(variable(plan, around, "RUEDA_RANK") == "(none)");
    CHECK(variable(plan, around, "HOROVOD_SIZE") == "(none)");
    CHECK(says(plan, "RUEDA_RANK"));
}

TEST_CASE("settings and named variables travel with mpirun, by name only", "[unit]") {
    Surroundings around = machine_with_mpi();
    around.environment["HOROVOD_FUSION_THRESHOLD"] = "1024";
    around.environment["RUEDA_LOG_LEVEL"] = "info";
    around.environment["HOME"] = "/root";
    around.environment["DATA"] = "/d";
    Options options = two_ranks();
    options.exported = {{"DATA", std::nullopt}, {"MODE", "a;b c"}};
    const LaunchPlan plan = planned(options, around);
    for (const char* name :
         {"HOROVOD_FUSION_THRESHOLD", "RUEDA_LOG_LEVEL", "RUEDA_CONTROL_PLANE", "OMP_NUM_THREADS", "DATA", "MODE"}) {
        CAPTURE(name);
        CHECK(has(plan.mpirun, {"-x", name}));
    }
    CHECK_FALSE(has(plan.mpirun, {"-x", "HOME"}));
    CHECK(variable(plan, around, "MODE") == "a;b c");
    options.exported = {{"ABSENT", std::nullopt}};
    CHECK(make_plan(options, around).status().message().find("ABSENT is not set") != std::string::npos);
}

TEST_CASE("the user's arguments for mpirun win", "[unit]") {
    Options options = two_ranks();
    options.mpi_args = {"--bind-to", "core", "-mca", "mpi_yield_when_idle", "1", "--map-by", "slot"};
    const LaunchPlan plan = planned(options, machine_with_mpi());
    CHECK_FALSE(has(plan.mpirun, {"--bind-to", "none"}));
    CHECK_FALSE(has(plan.mpirun, {"mpi_yield_when_idle", "0"}));
    CHECK(has(plan.mpirun, options.mpi_args));
    CHECK(make_plan(options, machine_without_mpi()).status().code() == ErrorCode::invalid_argument);
}

TEST_CASE("more ranks than --processes-per-host, and no other host", "[unit]") {
    Options options = two_ranks();
    options.per_host = 1;
    CHECK(make_plan(options, machine_with_mpi())
              .status()
              .message()
              .starts_with("-np 2 is more than --processes-per-host 1, and there is this host only"));
    options.per_host = 2;
    CHECK(planned(options, machine_with_mpi()).ranks == 2);
}

TEST_CASE("the numbers of ranks of an elastic job", "[unit]") {
    Options options = two_ranks();
    options.no_mpi = true;
    CHECK_FALSE(planned(options, machine_with_mpi()).elastic);
    options.elastic.most = 4;
    LaunchPlan plan = planned(options, machine_with_mpi());
    REQUIRE(plan.elastic);
    CHECK(plan.ranks == 2);
    CHECK(plan.elastic->first == 2);
    CHECK(plan.elastic->least == 2);
    CHECK(plan.elastic->most == 4);
    CHECK(plan.elastic->hosts == std::vector<Host>{{"localhost", 2, 0}});
    CHECK(plan.output == OutputMode::prefixed);
    options.ranks.reset();
    options.elastic.least = 1;
    plan = planned(options, machine_with_mpi());
    CHECK(plan.elastic->first == 4);  // without -np the job uses all slots that it may use
    CHECK(plan.elastic->hosts == std::vector<Host>{{"localhost", 4, 0}});
    CHECK_FALSE(plan.elastic->may_use_other_hosts);
    options.elastic.least.reset();
    // the default of --min-np is -np; the default of --max-np is -np, too
    CHECK(planned(options, machine_with_mpi()).elastic->least == 4);
    options.elastic.least = 1;
    options.elastic.discovery_script = "./slots";
    plan = planned(options, machine_with_mpi());
    CHECK(plan.ranks == 1);  // so many ranks are certain
    CHECK(plan.elastic->slots_per_host == 0);
    options.elastic.least.reset();
    CHECK(planned(options, machine_with_mpi()).elastic->least == 1);
}

TEST_CASE("the ranks of an elastic job have threads for the largest number of ranks", "[unit]") {
    Options options;
    options.program = {"./train"};
    options.ranks = 1;
    options.elastic.most = 2;
    options.elastic.slots_per_host = 2;
    const Surroundings around = machine_without_mpi();  // this machine has 4 cores
    LaunchPlan plan = planned(options, around);
    CHECK(variable(plan, around, "OMP_NUM_THREADS") == "2");
    CHECK(plan.about_threads.find("for at most 2 ranks") != std::string::npos);
    options.elastic.slots_per_host.reset();
    CHECK(variable(planned(options, around), around, "OMP_NUM_THREADS") == "4");  // there is one slot
    options.elastic.discovery_script = "./slots";
    // A discovery script may name other hosts, whose cores ruedarun does not know yet. So each worker divides the cores
    // of its host when it starts.
    plan = planned(options, around);
    CHECK(variable(plan, around, "OMP_NUM_THREADS") == "(none)");
    CHECK(plan.elastic->cores == 4);
    CHECK(plan.about_threads.find("divided by the slots that the host has") != std::string::npos);
    options.thread_variables = false;
    CHECK(planned(options, around).elastic->cores == 0);
}

TEST_CASE("an elastic job runs without MPI, although there is one", "[unit]") {
    Options options = two_ranks();
    options.elastic.least = 1;
    Surroundings around = machine_with_mpi();
    const LaunchPlan plan = planned(options, around);
    CHECK(plan.way == LaunchWay::direct);
    REQUIRE(plan.notes.size() == 1);
    CHECK(plan.notes[0].find("the job is elastic, so its ranks run without MPI") == 0);
    CHECK(says(plan, "started without mpirun: the job is elastic"));
    options.no_mpi = true;
    CHECK(planned(options, around).notes.empty());
    options.no_mpi = false;
    const auto message = [&] { return make_plan(options, around).status().message(); };
    SECTION("but not if --mpi-args is given") {
        options.mpi_args = {"--bind-to", "core"};
        CHECK(message().find("--mpi-args asks for MPI, but an elastic job") == 0);
    }
    SECTION("but not if --mpi is given") {
        options.asks_for_mpi = true;
        CHECK(message().find("--mpi asks for MPI, but an elastic job") == 0);
    }
    SECTION("but not if the control plane is to be that of MPI") {
        around.environment["RUEDA_CONTROL_PLANE"] = "mpi";
        CHECK(message().find("RUEDA_CONTROL_PLANE=mpi asks for MPI, but an elastic job") == 0);
        options.exported = {{"RUEDA_CONTROL_PLANE", "socket"}};
        CHECK(make_plan(options, around).is_ok());
        options.exported = {{"RUEDA_CONTROL_PLANE", "mpi"}};
        CHECK(message().find("RUEDA_CONTROL_PLANE=mpi asks for MPI, but an elastic job") == 0);
    }
}

TEST_CASE("elastic jobs that are not possible", "[unit]") {
    Options options = two_ranks();
    options.elastic.least = 2;
    const auto message = [&] { return make_plan(options, machine_with_mpi()).status().message(); };
    CHECK(make_plan(options, machine_with_mpi()).is_ok());
    options.elastic.least = 3;
    CHECK(message() ==
          "an elastic job cannot have 2 ranks at first (-np), 3 at least (--min-np) and 3 at most (the default of "
          "--max-np); expected --min-np <= -np <= --max-np");
    options.elastic.least = 1;
    options.gpus_per_rank = 1;
    CHECK(message().find("--gpus-per-rank") != std::string::npos);
    options.gpus_per_rank.reset();
    options.hosts = "here:1,other:1";
    options.elastic.least = 3;
    options.ranks = 4;
    CHECK(message().find("here:1, other:1 has 2 slots, and the job needs at least 3 ranks") == 0);
    options.elastic.discovery_script = "./slots";
    CHECK(message().find("both name hosts") != std::string::npos);
}

TEST_CASE("an elastic job on several hosts", "[unit]") {
    Options options = on_hosts("here:2,other:3,third");
    options.elastic.least = 1;
    options.ranks = 6;
    options.ssh_port = 2222;
    const LaunchPlan plan = planned(options, cluster());
    CHECK(plan.way == LaunchWay::direct);
    CHECK(plan.elastic->may_use_other_hosts);
    CHECK(plan.elastic->hosts == std::vector<Host>{{"here", 2, 0}, {"other", 3, 0}, {"third", 2, 0}});
    CHECK(plan.ranks == 6);
    CHECK(plan.runs_here);
    CHECK(plan.supervisor_program == "/usr/bin/ruedarun");
    CHECK(plan.supervisor_arguments == Words{"--", "./train"});
    CHECK(std::find(plan.travelling.begin(), plan.travelling.end(), "NCCL_DEBUG") != plan.travelling.end());
    CHECK(variable(plan, cluster(), "OMP_NUM_THREADS") == "(none)");
    CHECK(plan.elastic->cores == 4);
    const std::string text = describe_as_shell(plan);
    CHECK(text.find("# hosts and slots: here:2, other:3, third:2\n") == 0);
    CHECK(text.find("-p 2222 HOST 'exec /usr/bin/ruedarun --host-agent 0'") != std::string::npos);
    options.hosts = "other:3";
    options.ranks = 3;
    CHECK_FALSE(planned(options, cluster()).runs_here);
    options.hosts = "here:2,localhost:1";  // these names are this host
    CHECK_FALSE(planned(options, cluster()).elastic->may_use_other_hosts);
}

TEST_CASE("a wrong setting is found before anything starts", "[unit]") {
    Options options = two_ranks();
    options.exported = {{"RUEDA_SLOTS", "9"}};
    const Status status = make_plan(options, machine_with_mpi()).status();
    CHECK(status.code() == ErrorCode::invalid_argument);
    CHECK(status.message().find("RUEDA_SLOTS is '9'") != std::string::npos);
}

TEST_CASE("the plan says where the output of the ranks goes, and which rank reads the input", "[unit]") {
    Options options = two_ranks();
    options.no_mpi = true;
    Surroundings around = machine_with_mpi();
    CHECK(planned(options, around).output == OutputMode::prefixed);
    CHECK(planned(options, around).first_rank_reads_stdin);
    around.stdin_is_terminal = true;
    CHECK_FALSE(planned(options, around).first_rank_reads_stdin);
    CHECK(planned(options, around).own_groups);
    options.ranks = 1;
    CHECK(planned(options, around).output == OutputMode::plain);
    CHECK(planned(options, around).first_rank_reads_stdin);
    CHECK_FALSE(planned(options, around).own_groups);
    options.output_dir = "logs";
    CHECK(planned(options, around).output == OutputMode::files);
}

TEST_CASE("launchers are recognised by the output of --version", "[unit]") {
    const auto open_mpi = recognise_mpi_launcher("/m", "mpirun (Open MPI) 4.1.4\n\nReport bugs to ...\n");
    REQUIRE(open_mpi);
    CHECK(open_mpi->kind == MpiKind::open_mpi);
    CHECK(open_mpi->version == "Open MPI 4.1.4");
    const auto mpich = recognise_mpi_launcher(
        "/m", "HYDRA build details:\n    Version:                                 4.0.2\n    Release Date: x\n");
    REQUIRE(mpich);
    CHECK(mpich->kind == MpiKind::mpich);
    CHECK(mpich->version == "MPICH 4.0.2");
    const auto intel = recognise_mpi_launcher(
        "/m", "Intel(R) MPI Library for Linux* OS, Version 2021.13 Build 20240515 (id: df72937)\nCopyright 2003\n");
    REQUIRE(intel);
    CHECK(intel->kind == MpiKind::intel_mpi);
    CHECK(intel->version == "Intel MPI 2021.13");
    CHECK_FALSE(recognise_mpi_launcher("/m", "usage: mpirun ..."));
    CHECK_FALSE(recognise_mpi_launcher("/m", ""));
}

TEST_CASE("Hydra gets its own flags", "[unit]") {
    Surroundings around = machine_with_mpi();
    around.is_root = true;
    around.mpi->kind = MpiKind::mpich;
    const LaunchPlan mpich = planned(two_ranks(), around);
    CHECK(has(mpich.mpirun, {"-n", "2", "/usr/bin/ruedarun"}));
    CHECK(has(mpich.mpirun, {"-bind-to", "none"}));
    CHECK(has(mpich.mpirun, {"-disable-auto-cleanup"}));
    CHECK_FALSE(has(mpich.mpirun, {"--allow-run-as-root"}));
    around.mpi->kind = MpiKind::intel_mpi;
    CHECK(has(planned(two_ranks(), around).mpirun, {"-genv", "I_MPI_PIN", "0"}));
}

TEST_CASE("versions of all launchers", "[unit]") {
    const auto five = recognise_mpi_launcher("/m", "mpirun (Open MPI) 5.0.3\n\nReport bugs to x\n");
    REQUIRE(five);
    CHECK(five->kind == MpiKind::open_mpi);
    CHECK(five->major == 5);
    CHECK(recognise_mpi_launcher("/m", "mpirun (Open MPI) 4.1.4\n")->major == 4);
    CHECK(recognise_mpi_launcher("/m", "mpiexec (OpenRTE) 4.1.4\n") == std::nullopt);
    CHECK(recognise_mpi_launcher("/m", "HYDRA build details:\n    Version:           5.0.2\n")->major == 5);
    CHECK(recognise_mpi_launcher("/m", "Intel(R) MPI Library for Linux* OS, Version 2019 Update 9 Build 20200923\n")
              ->version == "Intel MPI 2019");
}

/// Returns a cluster in which this machine is the host "here".
TEST_CASE("hosts that all mean this one count as one host", "[unit]") {
    for (const char* hosts : {"localhost:3", "here:2,10.0.0.1:1"}) {
        CAPTURE(hosts);
        const LaunchPlan plan = planned(on_hosts(hosts), cluster());
        CHECK(plan.ranks == 3);
        CHECK(plan.shares.empty());
        CHECK_FALSE(has(plan.mpirun, {"--host"}));
    }
    Options options = on_hosts("localhost:2");
    options.no_mpi = true;
    CHECK(planned(options, cluster()).way == LaunchWay::direct);
}

TEST_CASE("several hosts with Open MPI 4", "[unit]") {
    const LaunchPlan plan = planned(on_hosts("here:4,b:2"), cluster());
    CHECK(plan.ranks == 6);
    CHECK(plan.shares == std::vector<HostShare>{{"here", 4}, {"b", 2}});
    CHECK(host_of(plan, 3) == "here");
    CHECK(host_of(plan, 4) == "b");
    CHECK(has(plan.mpirun, {"-np", "6", "--host", "here:4,b:2"}));
    CHECK(has(plan.mpirun, {"--map-by", "slot"}));
    CHECK(has(plan.mpirun, {"--bind-to", "none"}));
    CHECK(has(plan.mpirun, {"-x", "RUEDARUN_CONTROL"}));
    // A pasted command runs without ruedarun, so it must not set this variable.
    CHECK(describe_as_shell(plan).find("RUEDARUN_CONTROL") == std::string::npos);
    CHECK(has(plan.mpirun, {"-x", "RUEDARUN_JOB"}));
    CHECK(describe_as_shell(plan).find("RUEDARUN_JOB") == std::string::npos);
    CHECK(has(plan.mpirun_to_paste, {"--host", "here:4,b:2"}));
    CHECK(has(plan.mpirun, {"--rank-supervisor", "--", "./train"}));
    CHECK(says(plan, "host b: 2 ranks"));
}

TEST_CASE("several hosts without MPI", "[unit]") {
    Options options = on_hosts("b:2,here:3");
    options.no_mpi = true;
    options.ssh_port = 2222;
    options.ssh_identity = "my key";
    options.exported = {{"MODE", "fast", true}};
    Surroundings around = machine_without_mpi();
    around.host_names = cluster().host_names;
    around.environment["RUEDA_RENDEZVOUS_SECRET"] = "of an outer job";
    const LaunchPlan plan = planned(options, around);
    CHECK(plan.way == LaunchWay::agents);
    CHECK(plan.first_rank_reads_stdin);
    around.stdin_is_terminal = true;
    CHECK_FALSE(planned(options, around).first_rank_reads_stdin);
    CHECK(plan.ranks == 5);
    CHECK(plan.shares == std::vector<HostShare>{{"b", 2}, {"here", 3}});
    REQUIRE(plan.host_plans.size() == 2);
    CHECK_FALSE(plan.host_plans[0].is_here);
    CHECK(plan.host_plans[0].first_rank == 0);
    CHECK(plan.host_plans[0].ranks == 2);
    CHECK(plan.host_plans[0].command == Words{"ssh", "-x", "-T", "-o", "BatchMode=yes", "-p", "2222", "-i", "my key",
                                              "b", "exec /usr/bin/ruedarun --host-agent 0"});
    CHECK(plan.host_plans[1].is_here);
    CHECK(plan.host_plans[1].first_rank == 2);
    CHECK(plan.host_plans[1].ranks == 3);
    CHECK(plan.host_plans[1].command == Words{"/usr/bin/ruedarun", "--host-agent"});
    CHECK(plan.supervisor_arguments == Words{"--", "./train"});
    CHECK(variable(plan, around, "RUEDA_CONTROL_PLANE") == "socket");
    CHECK(variable(plan, around, "RUEDA_RENDEZVOUS_SECRET") == "(none)");
    CHECK(has(plan.travelling, {"MODE"}));
    CHECK_FALSE(has(plan.travelling, {"RUEDA_RENDEZVOUS_SECRET"}));
    CHECK(says(plan, "started without mpirun, through ssh: --no-mpi"));
    CHECK(says(plan, "their data goes over UCX"));
    CHECK_FALSE(says(plan, "--network-interfaces"));
    options.interfaces = {"eth0"};
    CHECK(says(planned(options, around), "UCX_NET_DEVICES names the interfaces of UCX"));
    around.environment["UCX_NET_DEVICES"] = "ib0";
    CHECK_FALSE(says(planned(options, around), "--network-interfaces"));
    CHECK(describe_as_shell(plan) ==
          "# ruedarun starts an agent on each host, and sends it the variables and the program; no MPI is used\n"
          "# ranks 0 to 1 on b: ssh -x -T -o BatchMode=yes -p 2222 -i 'my key' b 'exec /usr/bin/ruedarun --host-agent "
          "0'\n"
          "# ranks 2 to 4 on here (this host): /usr/bin/ruedarun --host-agent\n"
          "# each rank runs: env -u RUEDA_RENDEZVOUS_SECRET RUEDA_CONTROL_PLANE=socket PYTHONUNBUFFERED=1 MODE=fast "
          "./train\n");
}

TEST_CASE("a pasted description of a job without MPI on several hosts runs nothing", "[unit]") {
    Options options = on_hosts("b:1,here:1");
    options.no_mpi = true;
    options.program = {"sh", "-c", "rm one\nrm two\n"};
    std::string text = describe_as_shell(planned(options, cluster()));
    CHECK(text.find("\n# rm two\n# '\n") != std::string::npos);
    while (!text.empty()) {
        CHECK(text.starts_with("# "));
        text.erase(0, text.find('\n') + 1);
    }
}

TEST_CASE("a rank of a job without MPI knows where to meet", "[unit]") {
    TorchPlace place;
    place.rank = 3;
    place.ranks = 5;
    place.local_rank = 1;
    place.local_ranks = 3;
    const Environment environment = changed_environment({}, rendezvous_environment(place, "tcp:10.0.0.1:4711"));
    CHECK(environment == Environment{{"RUEDA_RANK", "3"},
                                     {"RUEDA_SIZE", "5"},
                                     {"RUEDA_LOCAL_RANK", "1"},
                                     {"RUEDA_LOCAL_SIZE", "3"},
                                     {"RUEDA_RENDEZVOUS", "tcp:10.0.0.1:4711"}});
}

TEST_CASE("the cores of this host are not used for other hosts", "[unit]") {
    const LaunchPlan plan = planned(on_hosts("here:4,b:2"), cluster());
    for (const char* const name : {"OMP_NUM_THREADS", "MKL_NUM_THREADS", "OPENBLAS_NUM_THREADS"}) {
        CAPTURE(name);
        CHECK(variable(plan, cluster(), name) == "(none)");
        CHECK_FALSE(has(plan.mpirun, {"-x", name}));
        CHECK(says(plan, std::string(name) + ": each host sets it"));
        CHECK(describe_as_shell(plan).find(std::string(name) + "=") == std::string::npos);
    }
    CHECK_FALSE(has(plan.mpirun, {"mpi_yield_when_idle"}));
    CHECK(says(plan, "mpi_yield_when_idle: each host sets it"));
    CHECK_FALSE(says(plan, "usable core "));
    CHECK_FALSE(says(plan, "on 4 usable cores"));
    Surroundings around = cluster();
    around.environment["OMP_NUM_THREADS"] = "3";
    CHECK(has(planned(on_hosts("a:1,b:1"), around).mpirun, {"-x", "OMP_NUM_THREADS"}));
}

TEST_CASE("the variables that a supervisor sets on its host", "[unit]") {
    using Environment = std::map<std::string, std::string>;
    const auto after = [](const Environment& before, double cores) {
        const std::optional<int> ranks = ranks_of_this_host(before);
        REQUIRE(ranks);
        return changed_environment(before, host_settings(before, {.together = cores, .own = cores}, *ranks));
    };
    const Environment open_mpi = {{"OMPI_COMM_WORLD_RANK", "5"}, {"OMPI_COMM_WORLD_LOCAL_SIZE", "4"}};
    Environment found = after(open_mpi, 9.5);
    CHECK(found["OMP_NUM_THREADS"] == "2");
    CHECK(found["MKL_NUM_THREADS"] == "2");
    CHECK(found["OPENBLAS_NUM_THREADS"] == "2");
    CHECK(found["KMP_BLOCKTIME"] == "1");
    CHECK(found["OMPI_MCA_mpi_yield_when_idle"] == "0");
    found = after(open_mpi, 3.5);
    CHECK_FALSE(found.contains("KMP_BLOCKTIME"));
    CHECK(found["OMP_NUM_THREADS"] == "1");
    CHECK(found["OMPI_MCA_mpi_yield_when_idle"] == "1");
    Environment by_user = open_mpi;
    by_user.insert({{"OMP_NUM_THREADS", "7"}, {"OMPI_MCA_mpi_yield_when_idle", "1"}});
    CHECK(after(by_user, 64) == by_user);
    by_user = {{"MPI_LOCALNRANKS", "2"}, {"MKL_NUM_THREADS", "3"}, {"OMP_NUM_THREADS", ""}};
    CHECK(after(by_user, 8) == Environment{{"MPI_LOCALNRANKS", "2"},
                                           {"MKL_NUM_THREADS", "3"},
                                           {"KMP_BLOCKTIME", "1"},
                                           {"OMP_NUM_THREADS", "4"},
                                           {"OPENBLAS_NUM_THREADS", "4"}});
    CHECK_FALSE(ranks_of_this_host({}));
    CHECK_FALSE(ranks_of_this_host({{"MPI_LOCALNRANKS", "0"}}));
    CHECK_FALSE(ranks_of_this_host({{"OMPI_COMM_WORLD_LOCAL_SIZE", "two"}}));
}

TEST_CASE("a rank that its launcher binds gets no more threads than it has cores", "[unit]") {
    // mpirun starts four ranks on a host with 16 cores. There are four cases: each rank is bound to two cores (--map-by
    // slot:PE=2 --bind-to core), to one core (without PE), to one of two sockets, or is not bound.
    CHECK(threads_of_a_rank({.together = 16, .own = 2}, 4) == 2);
    CHECK(threads_of_a_rank({.together = 16, .own = 1}, 4) == 1);
    CHECK(threads_of_a_rank({.together = 16, .own = 8}, 4) == 4);
    CHECK(threads_of_a_rank({.together = 16, .own = 16}, 4) == 4);
    CHECK(threads_of_a_rank({.together = 2.5, .own = 16}, 4) == 1);
    // srun --ntasks-per-node=2 --cpus-per-task=8 on a host with 64 cores; slurmstepd itself may use all 64 cores
    const RankCores under_srun = within_slurm_job({.together = 64, .own = 8}, {{"SLURM_CPUS_ON_NODE", "16"}});
    CHECK(under_srun.together == 16);
    CHECK(threads_of_a_rank(under_srun, 2) == 8);
    CHECK(threads_of_a_rank(under_srun, 4) == 4);
    CHECK(within_slurm_job({.together = 64, .own = 8}, {{"SLURM_CPUS_ON_NODE", "128"}}).together == 64);
    CHECK(within_slurm_job({.together = 64, .own = 8}, {{"SLURM_CPUS_ON_NODE", "0"}}).together == 64);
    CHECK(within_slurm_job({.together = 64, .own = 8}, {}).together == 64);
    const RankCores here = find_rank_cores({});
    CHECK(here.own == base::affinity_cores());
    CHECK(here.together >= std::min(here.own, base::usable_cores()));
    CHECK(settings_text({{"A", "1"}, {"B", "two"}}) == "A=1 B=two");
}

TEST_CASE("Open MPI begins with its own host, and the plan says so", "[unit]") {
    Surroundings around = cluster();
    const LaunchPlan plan = planned(on_hosts("a:1,b:2,here:3"), around);
    CHECK(plan.shares == std::vector<HostShare>{{"here", 3}, {"a", 1}, {"b", 2}});
    CHECK(host_of(plan, 2) == "here");
    CHECK(host_of(plan, 3) == "a");
    CHECK(says(plan, "here is moved to the front"));
    around.mpi->kind = MpiKind::mpich;
    CHECK(planned(on_hosts("a:1,here:3"), around).shares == std::vector<HostShare>{{"a", 1}, {"here", 3}});
}

TEST_CASE("the variables that other hosts get", "[unit]") {
    Surroundings around = cluster();
    around.environment["RUEDA_API_KEY_FILE"] = "/k";
    around.environment["OMP_PROC_BIND"] = "close";
    around.environment["LD_LIBRARY_PATH"] = "/lib";
    around.environment["AWS_SECRET_ACCESS_KEY"] = "s";
    around.environment["HF_TOKEN"] = "t";
    Options options = on_hosts("a:1,b:1");
    options.exported = {{"HF_TOKEN", std::nullopt, true}, {"DB_PASSWORD", "p", false}, {"MODE", "m", false}};
    const LaunchPlan plan = planned(options, around);
    for (const char* name :
         {"PATH", "LD_LIBRARY_PATH", "NCCL_DEBUG", "OMP_PROC_BIND", "RUEDA_LOG_LEVEL", "HF_TOKEN", "MODE"}) {
        CAPTURE(name);
        CHECK(has(plan.mpirun, {"-x", name}));
    }
    for (const char* name : {"HOME", "AWS_SECRET_ACCESS_KEY", "DB_PASSWORD", "RUEDA_API_KEY_FILE"}) {
        CAPTURE(name);
        CHECK_FALSE(has(plan.mpirun, {"-x", name}));
    }
    CHECK(plan.notes.size() == 2);
    // The command line may contain names of variables but not values, because every user of the machine can read it.
    for (const std::string& word : plan.mpirun) {
        CHECK(word.find("DB_PASSWORD=") == std::string::npos);
    }
}

TEST_CASE("several hosts with Open MPI 5", "[unit]") {
    Surroundings around = cluster();
    around.mpi->major = 5;
    Options options = on_hosts("a:2,[fe80::1]:2");
    options.interfaces = {"eth0", "eth1"};
    options.ssh_port = 2222;
    options.ssh_identity = "/k";
    const LaunchPlan plan = planned(options, around);
    CHECK(has(plan.mpirun, {"--host", "a:2,[fe80::1]:2"}));
    CHECK(has(plan.mpirun, {"--map-by", "slot:OVERSUBSCRIBE"}));
    CHECK(has(plan.mpirun, {"--runtime-options", "recoverable"}));
    CHECK(has(plan.mpirun, {"--mca", "btl_tcp_if_include", "eth0,eth1"}));
    CHECK(has(plan.mpirun, {"--prtemca", "prte_if_include", "eth0,eth1"}));
    CHECK(has(plan.mpirun, {"--prtemca", "plm_ssh_args", "-p 2222 -i /k"}));
    CHECK_FALSE(has(plan.mpirun, {"--oversubscribe"}));
    CHECK_FALSE(has(plan.mpirun, {"--mca", "orte_enable_recovery", "1"}));
    around.mpi->major = 4;
    const LaunchPlan four = planned(options, around);
    CHECK(has(four.mpirun, {"--mca", "oob_tcp_if_include", "eth0,eth1"}));
    CHECK(has(four.mpirun, {"--mca", "plm_rsh_args", "-p 2222 -i /k"}));
    options.ssh_identity = "/my keys/k";
    for (const int major : {4, 5}) {
        around.mpi->major = major;
        const Status refused = make_plan(options, around).status();
        CHECK(refused.code() == ErrorCode::invalid_argument);
        CHECK(refused.message().find("--ssh-identity-file is '/my keys/k'") != std::string::npos);
    }
}

TEST_CASE("the output of ssh -G", "[unit]") {
    const SshHost plain = read_ssh_configuration("user me\nhostname 10.0.0.7\nport 22\nproxycommand none\n");
    CHECK(plain.address == "10.0.0.7");
    CHECK_FALSE(plain.has_proxy);
    CHECK(read_ssh_configuration("hostname a\nproxyjump gate").has_proxy);
    CHECK(read_ssh_configuration("hostname a\nproxycommand nc %h %p\n").has_proxy);
    CHECK(read_ssh_configuration("unknown option -- G\n").address.empty());
}

TEST_CASE("several hosts with Hydra", "[unit]") {
    Surroundings around = cluster();
    around.mpi->kind = MpiKind::mpich;
    const LaunchPlan equal = planned(on_hosts("a:2,b:2"), around);
    CHECK(has(equal.mpirun, {"-hosts", "a:2,b:2", "-n", "4", "/usr/bin/ruedarun"}));
    CHECK(has(equal.mpirun, {"-genvlist",
                             "NCCL_DEBUG,PATH,PYTHONUNBUFFERED,"
                             "RUEDA_CONTROL_PLANE,RUEDA_LOG_LEVEL,RUEDARUN_CONTROL,RUEDARUN_JOB"}));
    CHECK(has(planned(on_hosts("a:2,b:1"), around).mpirun, {"-hosts", "a:2,b:1", "-n", "3"}));
    around.mpi->kind = MpiKind::intel_mpi;
    CHECK(has(planned(on_hosts("a:2,b:2"), around).mpirun, {"-hosts", "a,b", "-ppn", "2", "-n", "4"}));
    const LaunchPlan unequal = planned(on_hosts("a:2,b:1"), around);
    const Words program = {"/usr/bin/ruedarun", "--rank-supervisor", "--", "./train"};
    Words sets = {"-host", "a", "-n", "2"};
    sets.insert(sets.end(), program.begin(), program.end());
    sets.insert(sets.end(), {":", "-host", "b", "-n", "1"});
    sets.insert(sets.end(), program.begin(), program.end());
    CHECK(has(unequal.mpirun, sets));
    Options options = on_hosts("a:2,b:2");
    options.interfaces = {"eth0"};
    CHECK(has(planned(options, around).mpirun, {"-iface", "eth0"}));
    options.interfaces = {"eth0", "eth1"};
    CHECK_FALSE(make_plan(options, around).is_ok());
    options = on_hosts("a:2,b:2");
    options.ssh_port = 22;
    CHECK(make_plan(options, around).status().message().find("~/.ssh/config") != std::string::npos);
}

TEST_CASE("hosts by a file, an allocation, SageMaker, in this order", "[unit]") {
    Surroundings around = cluster();
    around.read = [](const std::string& name) {
        return name == "hosts.txt" ? std::optional<std::string>("f1 slots=2\nf2 slots=1\n") : std::nullopt;
    };
    around.environment["SM_HOSTS"] = R"(["algo-1","algo-2"])";
    Options options = on_hosts("");
    CHECK(planned(options, around).shares == std::vector<HostShare>{{"algo-1", 1}, {"algo-2", 1}});
    around.environment["SLURM_JOB_NODELIST"] = "n[1-2]";
    around.environment["SLURM_TASKS_PER_NODE"] = "3(x2)";
    around.environment["SLURM_JOB_CPUS_PER_NODE"] = "12(x2)";
    const LaunchPlan slurm = planned(options, around);
    CHECK(slurm.shares == std::vector<HostShare>{{"n1", 3}, {"n2", 3}});
    CHECK(variable(slurm, around, "OMP_NUM_THREADS") == "4");
    options.hostfile = "hosts.txt";
    CHECK(planned(options, around).shares == std::vector<HostShare>{{"f1", 2}, {"f2", 1}});
    const base::FileReader read = std::exchange(around.read, [](const std::string& /*path*/) {
        return std::optional<std::string>("f1:1 ifname=eth0\nf2:1\n");
    });
    CHECK(planned(options, around).notes.size() == 1);
    around.read = read;
    options.hostfile = "none.txt";
    CHECK(make_plan(options, around).status().message().find("'none.txt' cannot be read") != std::string::npos);
    options = on_hosts("h1:1,h2:1");
    CHECK(planned(options, around).shares == std::vector<HostShare>{{"h1", 1}, {"h2", 1}});
}

TEST_CASE("other hosts get settings of MPI, but no names of hosts and no variables of a launcher", "[unit]") {
    const std::vector<std::string> go = {
        "FI_PROVIDER",           "UCX_TLS",           "I_MPI_FABRICS",          "I_MPI_ROOT",
        "MPICH_ASYNC_PROGRESS",  "MPIR_CVAR_NOLOCAL", "OMPI_MCA_btl_tcp_links", "PMIX_MCA_gds",
        "PRTE_MCA_rmaps_verbose"};
    const std::vector<std::string> stay = {"RUEDA_HOSTNAME",
                                           "HOROVOD_HOSTNAME",
                                           "MPICH_INTERFACE_HOSTNAME",
                                           "OMPI_COMM_WORLD_RANK",
                                           "OMPI_MCA_ess",
                                           "OMPI_MCA_ess_base_vpid",
                                           "OMPI_MCA_orte_hnp_uri",
                                           "PMI_RANK",
                                           "PMI_FD",
                                           "PMIX_RANK",
                                           "PMIX_NAMESPACE",
                                           "PMIX_SERVER_URI2",
                                           "I_MPI_HYDRA_BOOTSTRAP",
                                           "I_MPI_INFO_NUMA_NODE",
                                           "PRTE_MCA_ess_base_jobid",
                                           "PRTE_MCA_prte_hnp_uri",
                                           "MPI_LOCALRANKID",
                                           "FIX_ME"};
    Surroundings around = cluster();
    for (const std::vector<std::string>& names : {go, stay}) {
        for (const std::string& name : names) {
            around.environment[name] = "1";
        }
    }
    Options options = on_hosts("a:1,b:1");
    const auto travels = [](const LaunchPlan& plan, const std::string& name) {
        return std::find(plan.travelling.begin(), plan.travelling.end(), name) != plan.travelling.end();
    };
    const LaunchPlan plan = planned(options, around);
    for (const std::string& name : go) {
        CAPTURE(name);
        CHECK(travels(plan, name));
    }
    for (const std::string& name : stay) {
        CAPTURE(name);
        CHECK_FALSE(travels(plan, name));
    }
    const std::string reason = "RUEDA_HOSTNAME stays on this host: it says what this one is called";
    CHECK(std::count(plan.reasons.begin(), plan.reasons.end(), reason) == 1);
    options.exported = {{"RUEDA_HOSTNAME", "x"}};  // the user names this variable, so it is sent to the other hosts
    const LaunchPlan asked = planned(options, around);
    CHECK(travels(asked, "RUEDA_HOSTNAME"));
    CHECK(std::count(asked.reasons.begin(), asked.reasons.end(), reason) == 0);
}

TEST_CASE("plans that are refused", "[unit]") {
    const auto refused = [](const Options& options, const Surroundings& around) {
        const Status status = make_plan(options, around).status();
        CHECK(status.code() == ErrorCode::invalid_argument);
        return status.message();
    };
    const auto has_text = [](const std::string& text, const std::string& part) {
        return text.find(part) != std::string::npos;
    };
    Options options = on_hosts("a:1,b:1");
    CHECK(has_text(refused(options, machine_without_mpi()),
                   "ranks on other hosts (b) need an mpirun, but there is no mpirun in PATH; without MPI, --no-mpi "
                   "starts them"));
    options.hosts = "a:2000,b:1";
    CHECK(has_text(refused(options, cluster()), "2000 of them on one host"));
    CHECK(has_text(refused(on_hosts(""), machine_with_mpi()), "number of processes is missing"));
    options = two_ranks();
    options.ranks = 1025;
    CHECK(has_text(refused(options, machine_with_mpi()), "at most 1024"));
    Surroundings sagemaker = cluster();
    sagemaker.environment["SM_HOSTS"] = R"(["algo-1","algo-2"])";
    sagemaker.environment["SM_CURRENT_HOST"] = "algo-2";
    CHECK(has_text(refused(on_hosts(""), sagemaker), "started from algo-1"));
}

/// Returns the environment of one of four tasks that srun started on one host.
std::map<std::string, std::string> task_of_srun() {
    return {{"SLURM_JOB_ID", "17"},        {"SLURM_STEP_ID", "3"},
            {"SLURM_STEP_NUM_TASKS", "4"}, {"SLURM_PROCID", "2"},
            {"SLURM_LOCALID", "2"},        {"SLURM_NODEID", "0"},
            {"SLURM_STEP_NUM_NODES", "1"}, {"SLURM_STEP_TASKS_PER_NODE", "4"}};
}

TEST_CASE("a task of srun becomes the program", "[unit]") {
    Options options;
    options.program = {"./train"};
    options.exported = {{"MODE", "m"}, {"HOME", std::nullopt}};
    auto environment = task_of_srun();
    environment["HOME"] = "/home/h";
    const auto found = [&](const std::string& name) {
        const auto task = find_srun_task(options, environment, {8, 8});
        REQUIRE(task.is_ok());
        REQUIRE(task.value().has_value());
        const auto after = changed_environment({}, task.value()->environment);
        return after.contains(name) ? after.at(name) : "(none)";
    };
    CHECK(found("RUEDA_RANK") == "2");
    CHECK(found("RUEDA_SIZE") == "4");
    CHECK(found("RUEDA_LOCAL_SIZE") == "4");
    CHECK(found("RUEDA_CONTROL_PLANE") == "socket");
    CHECK(found("RUEDA_RENDEZVOUS") == fmt::format("@rueda-slurm-{}-17.3-*", ::geteuid()));
    CHECK(found("RANK") == "2");
    CHECK(found("WORLD_SIZE") == "4");
    CHECK(found("MASTER_ADDR") == "127.0.0.1");
    CHECK(found("MASTER_PORT") == "13040");  // 12000 + 61 × 17 + 3
    CHECK(found("OMP_NUM_THREADS") == "2");
    CHECK(found("MODE") == "m");
    CHECK(found("HOME") == "/home/h");
    environment["SLURM_CPUS_PER_TASK"] = "6";
    CHECK(found("OMP_NUM_THREADS") == "6");
    CHECK(found("MKL_NUM_THREADS") == "6");
    CHECK(found("KMP_BLOCKTIME") == "1");
    options.thread_variables = false;
    CHECK(found("OMP_NUM_THREADS") == "(none)");
    options.thread_variables = true;
    environment["OMP_NUM_THREADS"] = "1";
    CHECK(found("OMP_NUM_THREADS") == "(none)");
    environment["PMIX_RANK"] = "2";
    CHECK(found("RUEDA_RANK") == "(none)");  // MPI gives the ranks their numbers, so ruedarun must not set them
    environment["SLURM_STEP_NUM_NODES"] = "2";
    CHECK(found("RUEDA_CONTROL_PLANE") == "(none)");
    environment.erase("PMIX_RANK");
    CHECK(find_srun_task(options, environment, {8, 8}).status().message().find("--mpi=pmix") != std::string::npos);
}

TEST_CASE("processes that are not a task of srun, and tasks that are refused", "[unit]") {
    Options options;
    options.program = {"./train"};
    for (const char* missing : {"SLURM_STEP_ID", "SLURM_PROCID", "SLURM_STEP_NUM_TASKS"}) {
        auto environment = task_of_srun();
        // If one of these variables is missing, the process is no task of srun. It is a batch script, or the shell of
        // an allocation.
        environment.erase(missing);
        CAPTURE(missing);
        CHECK_FALSE(find_srun_task(options, environment, {8, 8}).value().has_value());
    }
    auto alone = task_of_srun();
    alone["SLURM_STEP_NUM_TASKS"] = "1";  // like `srun -n 1 ruedarun -np 4`
    alone["SLURM_PROCID"] = "0";
    CHECK_FALSE(find_srun_task(options, alone, {8, 8}).value().has_value());
    options.ranks = 4;
    CHECK(find_srun_task(options, task_of_srun(), {8, 8}).value().has_value());
    options.ranks = 2;
    CHECK(find_srun_task(options, task_of_srun(), {8, 8}).status().message().find("each would start a job") !=
          std::string::npos);
    options.ranks.reset();
    options.hosts = "a:4";
    CHECK_FALSE(find_srun_task(options, task_of_srun(), {8, 8}).is_ok());
}

TEST_CASE("the shell of srun --pty is not treated as a task", "[unit]") {
    Options options;
    options.program = {"./train"};
    auto environment = task_of_srun();
    environment["SLURM_PTY_PORT"] = "40123";
    const Status other = find_srun_task(options, environment, {8, 8}).status();
    CHECK(other.message().find("this is task 2 of 4 of srun --pty, which gives a terminal to task 0 alone") == 0);
    environment["SLURM_PROCID"] = "0";
    const auto task = find_srun_task(options, environment, {8, 8});
    REQUIRE(task.is_ok());
    CHECK_FALSE(task.value().has_value());

    Surroundings around = machine_with_mpi();
    around.environment = environment;
    around.environment["SLURM_JOB_NODELIST"] = "n1";
    around.environment["SLURM_TASKS_PER_NODE"] = "4";
    around.environment["SLURMD_NODENAME"] = "n1";
    const LaunchPlan plan = planned(options, around);
    CHECK(plan.ranks == 4);
    CHECK(plan.notes == std::vector<std::string>{
                            "this is the shell of srun --pty (SLURM_PTY_PORT is set), not one of '4' ranks: ruedarun "
                            "starts the ranks itself, as anywhere in an allocation"});
    around.environment["SLURM_STEP_NUM_TASKS"] = "1";  // `srun --pty bash` sets this value for one task
    CHECK(planned(options, around).notes.empty());
}

TEST_CASE("options without effect under srun are named once, in one line", "[unit]") {
    Options options;
    options.program = {"./train"};
    options.notes = {"of a flag"};
    auto environment = task_of_srun();
    const auto notes = [&] {
        const auto task = find_srun_task(options, environment, {8, 8});
        REQUIRE(task.is_ok());
        REQUIRE(task.value().has_value());
        return task.value()->notes;
    };
    options.output_dir = "logs";
    CHECK(notes().empty());  // only rank 0 prints the notes
    environment["SLURM_PROCID"] = "0";
    options.output_dir.clear();
    CHECK(notes() == std::vector<std::string>{"of a flag"});
    options.output_dir = "logs";
    options.max_restarts = 1;
    options.grace = std::chrono::milliseconds(1);
    options.mpi_args = {"--display-map"};
    options.interfaces = {"eth0"};
    options.ssh_port = 22;
    options.ssh_identity = "key";
    REQUIRE(notes().size() == 2);
    const std::string line = notes().back();
    CHECK(line.find("without effect here, as srun starts and ends the ranks: --output-dir (srun --output=") == 0);
    for (const char* name : {"--output-dir", "--max-restarts", "--grace", "--mpi-args", "--network-interfaces",
                             "--ssh-port", "--ssh-identity-file"}) {
        CAPTURE(name);
        CHECK(line.find(name) != std::string::npos);
    }
}

TEST_CASE("options that ask for another job than srun's are refused", "[unit]") {
    Options options;
    options.program = {"./train"};
    auto environment = task_of_srun();
    const auto refused = [&] { return find_srun_task(options, environment, {8, 8}).status().message(); };
    options.per_host = 4;
    CHECK(refused().empty());
    options.per_host = 2;
    CHECK(refused() ==
          "--processes-per-host is 2, but srun has started 4 tasks on this host; leave it out, and say srun "
          "--ntasks-per-node=2");
    options.per_host.reset();
    options.exported = {{"DATA", std::nullopt}};
    CHECK(refused() == "-x DATA: DATA is not set in the environment; write -x DATA=value");
    options.exported.clear();
    environment["PMIX_RANK"] = "2";
    options.no_mpi = true;
    const auto task = find_srun_task(options, environment, {8, 8});
    REQUIRE(task.is_ok());
    CHECK(changed_environment({}, task.value()->environment).at("RUEDA_CONTROL_PLANE") == "socket");
    environment["SLURM_STEP_NUM_NODES"] = "2";
    CHECK(refused().find("several hosts, and between them srun's tasks need MPI, but --no-mpi is set") !=
          std::string::npos);
}

TEST_CASE("a dry run is a shell script", "[unit]") {
    Options options = two_ranks();
    options.no_mpi = true;
    options.output_dir = "my logs";
    Surroundings around = machine_with_mpi();
    around.environment["HOROVOD_RANK"] = "1";
    around.environment["RUEDA_RANK"] = "1";
    around.environment["OMP_NUM_THREADS"] = "1";
    CHECK(describe_as_shell(planned(options, around)) ==
          "mkdir -p 'my logs'\n"
          "env -u HOROVOD_RANK RUEDA_CONTROL_PLANE=socket PYTHONUNBUFFERED=1 RUEDA_RANK=0 RUEDA_SIZE=2 "
          "RUEDA_LOCAL_RANK=0 RUEDA_LOCAL_SIZE=2 RUEDA_RENDEZVOUS=@rueda-00ff RANK=0 WORLD_SIZE=2 LOCAL_RANK=0 "
          "LOCAL_WORLD_SIZE=2 GROUP_RANK=0 NODE_RANK=0 GROUP_WORLD_SIZE=1 MASTER_ADDR=127.0.0.1 MASTER_PORT=40123 "
          "./train --lr 0.1 "
          ">'my logs/rank.0.out' 2>'my logs/rank.0.err' &\n"
          "env -u HOROVOD_RANK RUEDA_CONTROL_PLANE=socket PYTHONUNBUFFERED=1 RUEDA_RANK=1 RUEDA_SIZE=2 "
          "RUEDA_LOCAL_RANK=1 RUEDA_LOCAL_SIZE=2 RUEDA_RENDEZVOUS=@rueda-00ff RANK=1 WORLD_SIZE=2 LOCAL_RANK=1 "
          "LOCAL_WORLD_SIZE=2 GROUP_RANK=0 NODE_RANK=0 GROUP_WORLD_SIZE=1 MASTER_ADDR=127.0.0.1 MASTER_PORT=40123 "
          "./train --lr 0.1 "
          ">'my logs/rank.1.out' 2>'my logs/rank.1.err' &\n"
          "wait\n");
}

TEST_CASE("a dry run shows no secret", "[unit]") {
    Options options = two_ranks();
    options.exported = {{"HF_TOKEN", std::nullopt, true}, {"DB_PASSWORD", "hunter2", true}, {"MODE", "fast", true}};
    Surroundings around = machine_with_mpi();
    around.environment["HF_TOKEN"] = "sesame";
    for (const bool no_mpi : {false, true}) {
        options.no_mpi = no_mpi;
        const std::string text = describe_as_shell(planned(options, around));
        CHECK(text.find("HF_TOKEN=\"$HF_TOKEN\" DB_PASSWORD=\"$DB_PASSWORD\" MODE=fast") != std::string::npos);
        CHECK(text.find("sesame") == std::string::npos);
        CHECK(text.find("hunter2") == std::string::npos);
    }
}

}  // namespace
}  // namespace rueda::launcher
