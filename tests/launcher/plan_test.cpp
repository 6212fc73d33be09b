// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The Rueda authors
#include "launcher/plan.hpp"

#include <algorithm>
#include <catch2/catch.hpp>
#include <string>
#include <vector>

#include "launcher/describe_plan.hpp"

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
    around.supervisor_socket = "@ruedarun-00ff";
    return around;
}

Surroundings machine_without_mpi() {
    Surroundings around = machine_with_mpi();
    around.mpi.reset();
    around.no_mpi_reason = "there is no mpirun in PATH";
    return around;
}

LaunchPlan planned(const Options& options, const Surroundings& around) {
    Result<LaunchPlan> plan = make_plan(options, around);
    INFO(plan.status().message());
    REQUIRE(plan.is_ok());
    return std::move(plan).value();
}

/// What a rank finds, "(none)" for what it does not.
std::string variable(const LaunchPlan& plan, const Surroundings& around, const std::string& name) {
    const auto environment = changed_environment(around.environment, plan.environment);
    const auto found = environment.find(name);
    return found == environment.end() ? "(none)" : found->second;
}

/// Whether the words stand in the command one behind the other.
bool has(const Words& command, const Words& words) {
    return std::search(command.begin(), command.end(), words.begin(), words.end()) != command.end();
}

bool says(const LaunchPlan& plan, const std::string& text) {
    return std::any_of(plan.reasons.begin(), plan.reasons.end(),
                       [&](const std::string& reason) { return reason.find(text) != std::string::npos; });
}

TEST_CASE("mpirun is the way where there is one", "[unit]") {
    const LaunchPlan plan = planned(two_ranks(), machine_with_mpi());
    CHECK(plan.way == LaunchWay::mpirun);
    CHECK(plan.mpirun.front() == "/usr/bin/mpirun");
    CHECK(has(plan.mpirun, {"-np", "2"}));
    CHECK(has(plan.mpirun, {"--bind-to", "none"}));
    CHECK(has(plan.mpirun, {"--mca", "orte_abort_on_non_zero_status", "0"}));
    CHECK(has(plan.mpirun, {"--mca", "orte_enable_recovery", "1"}));
    CHECK(has(plan.mpirun, {"--mca", "mpi_yield_when_idle", "0"}));
    CHECK_FALSE(has(plan.mpirun, {"--allow-run-as-root"}));
    const Words tail = {"/usr/bin/ruedarun", "--rank-supervisor", "@ruedarun-00ff", "--", "./train", "--lr", "0.1"};
    REQUIRE(plan.mpirun.size() > tail.size());
    CHECK(Words(plan.mpirun.end() - static_cast<std::ptrdiff_t>(tail.size()), plan.mpirun.end()) == tail);
    CHECK(variable(plan, machine_with_mpi(), "RUEDA_CONTROL_PLANE") == "mpi");
    CHECK(variable(plan, machine_with_mpi(), "RUEDA_RENDEZVOUS") == "(none)");
}

TEST_CASE("without mpirun, or when told, ruedarun starts the ranks", "[unit]") {
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
                                                     {"RUEDA_RENDEZVOUS", "@rueda-00ff"}});
}

TEST_CASE("root, too few cores", "[unit]") {
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
    around.environment["OMP_NUM_THREADS"] = "3";  // the others follow it by themselves
    CHECK(variable(planned(two_ranks(), around), around, "OMP_NUM_THREADS") == "3");
    CHECK(variable(planned(two_ranks(), around), around, "MKL_NUM_THREADS") == "(none)");
    around.environment.erase("OMP_NUM_THREADS");
    Options options = two_ranks();
    options.exported = {{"OMP_NUM_THREADS", "5"}};
    CHECK(variable(planned(options, around), around, "OMP_NUM_THREADS") == "5");
    CHECK(variable(planned(options, around), around, "OPENBLAS_NUM_THREADS") == "(none)");
}

TEST_CASE("what the user set stays", "[unit]") {
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

TEST_CASE("another job's identity is forgotten", "[unit]") {
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

TEST_CASE("a wrong setting is found before anything starts", "[unit]") {
    Options options = two_ranks();
    options.exported = {{"RUEDA_CELLS", "99"}};
    const Status status = make_plan(options, machine_with_mpi()).status();
    CHECK(status.code() == ErrorCode::invalid_argument);
    CHECK(status.message().find("RUEDA_CELLS is '99'") != std::string::npos);
}

TEST_CASE("where output and input go", "[unit]") {
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

TEST_CASE("launchers are recognised by what they say", "[unit]") {
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
    CHECK(has(mpich.mpirun, {"/usr/bin/mpirun", "-n", "2"}));
    CHECK(has(mpich.mpirun, {"-bind-to", "none"}));
    CHECK(has(mpich.mpirun, {"-disable-auto-cleanup"}));
    CHECK_FALSE(has(mpich.mpirun, {"--allow-run-as-root"}));
    around.mpi->kind = MpiKind::intel_mpi;
    CHECK(has(planned(two_ranks(), around).mpirun, {"-genv", "I_MPI_PIN", "0"}));
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
          "RUEDA_LOCAL_RANK=0 RUEDA_LOCAL_SIZE=2 RUEDA_RENDEZVOUS=@rueda-00ff ./train --lr 0.1 "
          ">'my logs/rank.0.out' 2>'my logs/rank.0.err' &\n"
          "env -u HOROVOD_RANK RUEDA_CONTROL_PLANE=socket PYTHONUNBUFFERED=1 RUEDA_RANK=1 RUEDA_SIZE=2 "
          "RUEDA_LOCAL_RANK=1 RUEDA_LOCAL_SIZE=2 RUEDA_RENDEZVOUS=@rueda-00ff ./train --lr 0.1 "
          ">'my logs/rank.1.out' 2>'my logs/rank.1.err' &\n"
          "wait\n");
}

}  // namespace
}  // namespace rueda::launcher
