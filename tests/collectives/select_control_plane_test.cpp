// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The Rueda authors
#include "collectives/selection/select_control_plane.hpp"

#include <sys/socket.h>
#include <unistd.h>

#include <array>
#include <catch2/catch.hpp>
#include <fstream>

#include "base/unique_fd.hpp"
#include "collectives/mpi/load_plugin.hpp"
#include "tests/collectives/plane_checks.hpp"
#include "tests/collectives/processes.hpp"

namespace rueda::collectives {
namespace {

using base::Config;
using base::ControlPlaneKind;
using base::environment_of;
using tests::outcome;

std::string chosen(const Config& config, const LaunchFacts& facts = {}) {
    const auto candidate = choose_control_plane({config, facts});
    if (!candidate.is_ok()) {
        return outcome(candidate.status());
    }
    return candidate.value() == &kSingleCandidate   ? "single"
           : candidate.value() == &kSocketCandidate ? "socket"
           : candidate.value() == &kMpiCandidate    ? "mpi"
                                                    : "unknown";
}

Config identity(std::optional<int> rank, std::optional<int> size, const std::string& rendezvous = "") {
    Config config;
    config.rank = rank;
    config.size = size;
    config.rendezvous = rendezvous;
    return config;
}

TEST_CASE("the control plane follows from settings and launcher", "[unit]") {
    const LaunchFacts nothing;
    const LaunchFacts mpirun{false, "mpirun (OMPI_COMM_WORLD_SIZE)", 4, MpiAbi::open_mpi};
    const LaunchFacts initialized{true, "", std::nullopt, MpiAbi::mpich};
    CHECK(chosen({}, nothing) == "single");
    CHECK(chosen({}, mpirun) == "mpi");
    CHECK(chosen({}, initialized) == "mpi");
    CHECK(chosen(identity(1, 4, "@x"), nothing) == "socket");
    CHECK(chosen(identity(1, 4, "@x"), mpirun) == "socket");
    CHECK(chosen(identity(0, 1), nothing) == "single");
    CHECK(chosen(identity({}, 4), mpirun) == "mpi");
    CHECK(chosen(identity({}, {}, "@x"), mpirun) == "mpi");

    Config config;
    config.control_plane = ControlPlaneKind::single;
    CHECK(chosen(config, mpirun) == "single");
    config.control_plane = ControlPlaneKind::mpi;
    CHECK(chosen(config, nothing) == "mpi");
    config = identity(1, 4, "@x");
    config.control_plane = ControlPlaneKind::mpi;
    CHECK(chosen(config, nothing) == "mpi");
}

TEST_CASE("settings that contradict each other are refused", "[unit]") {
    CHECK_THAT(chosen(identity({}, 4)),
               Catch::StartsWith("InvalidArgument: RUEDA_RANK is not set and RUEDA_SIZE is 4"));
    CHECK_THAT(chosen(identity(2, {})),
               Catch::StartsWith("InvalidArgument: RUEDA_RANK is 2 and RUEDA_SIZE is not set"));
    CHECK_THAT(chosen(identity(4, 4, "@x")), Catch::StartsWith("InvalidArgument: RUEDA_RANK is 4, expected 0 to 3"));
    CHECK_THAT(chosen(identity(0, 0)), Catch::StartsWith("InvalidArgument: RUEDA_SIZE is 0"));
    CHECK_THAT(chosen(identity(1, {}, "@x")), Catch::Contains("not set: RUEDA_SIZE:"));
    CHECK_THAT(chosen(identity({}, {}, "@x")), Catch::Contains("not set: RUEDA_RANK, RUEDA_SIZE:"));
    Config config = identity(1, 4);
    config.control_plane = ControlPlaneKind::socket;
    CHECK_THAT(chosen(config), Catch::Contains("not set: RUEDA_RENDEZVOUS:"));
    config.control_plane = ControlPlaneKind::single;
    CHECK_THAT(chosen(config), Catch::StartsWith("InvalidArgument: RUEDA_RANK is 1 and RUEDA_SIZE is 4, but "
                                                 "RUEDA_CONTROL_PLANE is single, so every process is a job"));
    CHECK_THAT(chosen(identity(1, 4)), Catch::Contains("but this process is alone: no MPI launcher has started it"));
}

TEST_CASE("processes of a launcher that are jobs of their own are told so", "[unit]") {
    const auto notice = [](const LaunchFacts& facts) {
        Config config;
        config.control_plane = ControlPlaneKind::single;
        const auto opened = kSingleCandidate.open({config, facts});
        REQUIRE(opened.is_ok());
        CHECK(opened.value().control_plane->size() == 1);
        return opened.value().notice;
    };
    CHECK(notice({}).empty());
    CHECK(notice({false, "mpirun (OMPI_COMM_WORLD_SIZE)", 1, MpiAbi::open_mpi}).empty());
    CHECK(notice({false, "an MPI launcher (PMI_FD)", std::nullopt, MpiAbi::mpich}).empty());
    CHECK(notice({false, "mpirun (OMPI_COMM_WORLD_SIZE)", 4, MpiAbi::open_mpi}) ==
          "mpirun (OMPI_COMM_WORLD_SIZE) started 4 processes, and RUEDA_CONTROL_PLANE is single: each of them is a job "
          "of its own, and trains alone; unset it to make one job of them");
}

TEST_CASE("a launcher is believed only while it can be reached", "[unit]") {
    const tests::PrivateFolder folder;
    const auto launcher = [](std::map<std::string, std::string> variables) {
        return read_launch_facts(environment_of(std::move(variables))).launcher;
    };
    CHECK(launcher({}).empty());
    // A Slurm batch script and its children have such variables, although no launcher started them as ranks.
    CHECK(launcher({{"SLURM_NTASKS", "4"}, {"SLURM_PROCID", "0"}, {"SLURM_STEP_NUM_TASKS", "4"}}).empty());
    CHECK(launcher({{"PMI_RANK", "0"}, {"PMI_SIZE", "4"}}).empty());
    CHECK(launcher({{"PMIX_RANK", "0"}, {"PMIX_NAMESPACE", "x"}}).empty());

    CHECK(launcher({{"OMPI_COMM_WORLD_SIZE", "4"}}) == "mpirun (OMPI_COMM_WORLD_SIZE)");
    CHECK(launcher({{"OMPI_COMM_WORLD_SIZE", "4"}, {"PMIX_SERVER_TMPDIR", folder.path()}}) ==
          "mpirun (OMPI_COMM_WORLD_SIZE)");
    CHECK(launcher({{"OMPI_COMM_WORLD_SIZE", "4"}, {"PMIX_SERVER_TMPDIR", folder.path() + "/gone"}}).empty());

    CHECK(launcher({{"PMIX_RANK", "0"}, {"PMIX_SERVER_TMPDIR", folder.path()}}) == "an MPI launcher (PMIX_RANK)");
    CHECK(launcher({{"PMIX_RANK", "0"}, {"PMIX_SERVER_TMPDIR", folder.path() + "/gone"}}).empty());

    std::array<int, 2> ends{};
    REQUIRE(::socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, ends.data()) == 0);
    base::UniqueFd ours(ends[0]);
    base::UniqueFd theirs(ends[1]);
    const std::string number = fmt::to_string(ours.value());
    CHECK(launcher({{"PMI_FD", number}, {"PMI_RANK", "1"}}) == "an MPI launcher (PMI_FD)");
    CHECK(launcher({{"PMI_FD", "x"}}).empty());
    ours.reset();
    CHECK(launcher({{"PMI_FD", number}}).empty());
}

TEST_CASE("the size and the rank come from variables of the same launcher", "[unit]") {
    const tests::PrivateFolder folder;
    const auto size = [](std::map<std::string, std::string> variables) {
        return read_launch_facts(environment_of(std::move(variables))).job_size;
    };
    CHECK(size({{"OMPI_COMM_WORLD_SIZE", "4"}, {"SLURM_STEP_NUM_TASKS", "1"}}) == 4);
    CHECK(size({{"PMIX_RANK", "0"}, {"PMIX_SERVER_TMPDIR", folder.path()}, {"SLURM_STEP_NUM_TASKS", "3"}}) == 3);
    CHECK(size({{"SLURM_STEP_NUM_TASKS", "3"}}) == std::nullopt);
    const auto rank = [](std::map<std::string, std::string> variables) {
        return read_launch_facts(environment_of(std::move(variables))).job_rank;
    };
    CHECK(rank({{"OMPI_COMM_WORLD_SIZE", "4"}, {"OMPI_COMM_WORLD_RANK", "3"}, {"PMIX_RANK", "0"}}) == 3);
    CHECK(rank({{"OMPI_COMM_WORLD_SIZE", "4"}}) == std::nullopt);
    CHECK(rank({{"PMIX_RANK", "2"}, {"PMIX_SERVER_TMPDIR", folder.path()}}) == 2);
    // Without a size, no launcher can have started this process.
    CHECK(rank({{"OMPI_COMM_WORLD_RANK", "3"}}) == std::nullopt);
}

TEST_CASE("a launcher tells which MPI it is of, where that is certain", "[unit]") {
    const auto abi = [](std::map<std::string, std::string> variables) {
        return read_launch_facts(environment_of(std::move(variables))).abi;
    };
    std::array<int, 2> ends{};
    REQUIRE(::socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, ends.data()) == 0);
    const base::UniqueFd ours(ends[0]);
    const base::UniqueFd theirs(ends[1]);
    const std::string number = fmt::to_string(ours.value());
    const tests::PrivateFolder folder;
    CHECK(abi({{"OMPI_COMM_WORLD_SIZE", "4"}}) == MpiAbi::open_mpi);
    CHECK(abi({{"PMI_FD", number}, {"MPI_LOCALNRANKS", "2"}}) == MpiAbi::mpich);
    CHECK(abi({{"PMI_FD", number}}) == std::nullopt);
    CHECK(abi({{"MPI_LOCALNRANKS", "2"}}) == std::nullopt);
    CHECK(abi({{"PMIX_RANK", "0"}, {"PMIX_SERVER_TMPDIR", folder.path()}}) == std::nullopt);
    CHECK(abi({}) == std::nullopt);
}

TEST_CASE("the plugin of the right MPI is looked for first", "[unit]") {
    const auto files = [](std::optional<MpiAbi> abi) {
        std::vector<std::string> names;
        for (const std::string& path : mpi_plugin_candidates(abi)) {
            names.push_back(path.substr(path.rfind('/') + 1));
        }
        return names;
    };
    const std::string mpi = "librueda_mpi.so";
    const std::string mpich = "librueda_mpich.so";
    CHECK(files(MpiAbi::open_mpi) == std::vector<std::string>{mpi, mpi});
    CHECK(files(MpiAbi::mpich) == std::vector<std::string>{mpich, mpich, mpi, mpi});
    CHECK(files(std::nullopt) == std::vector<std::string>{mpi, mpi, mpich, mpich});
    CHECK_THAT(load_mpi_plugin("", MpiAbi::mpich).status().message(),
               Catch::Contains("build Rueda where MPICH is installed (Debian: libmpich-dev)"));
}

TEST_CASE("a missing plugin is named, with how to get it", "[unit]") {
    Config config;
    config.mpi_library = "/nonexistent/librueda_mpi.so";
    const auto selected = select_control_plane(config, environment_of({{"OMPI_COMM_WORLD_SIZE", "4"}}));
    CHECK(selected.status().code() == ErrorCode::unsupported);
    CHECK_THAT(selected.status().message(),
               Catch::StartsWith("started by mpirun (OMPI_COMM_WORLD_SIZE), but the MPI plugin "
                                 "'/nonexistent/librueda_mpi.so' cannot be loaded") &&
                   Catch::Contains("libopenmpi-dev"));
    // The test program's folder contains no plugin.
    const auto nowhere = load_mpi_plugin("", std::nullopt);
    CHECK(nowhere.status().code() == ErrorCode::unsupported);
    for (const std::string& candidate : mpi_plugin_candidates(std::nullopt)) {
        CHECK(candidate.front() == '/');
        CHECK_THAT(nowhere.status().message(), Catch::Contains(candidate));
    }
}

TEST_CASE("a library that is no plugin is refused", "[unit]") {
    const auto loaded = load_mpi_plugin("libc.so.6", std::nullopt);
    CHECK(loaded.status().code() == ErrorCode::unsupported);
    CHECK_THAT(loaded.status().message(), Catch::Contains("is no MPI plugin of Rueda"));
}

/// Creates a file that cannot be loaded as a plugin, like a plugin whose MPI is missing.
std::string unloadable(const tests::PrivateFolder& folder, const std::string& name) {
    std::string path = fmt::format("{}/{}", folder.path(), name);
    std::ofstream(path) << "no library at all, but long enough to look for the head of one in it";
    return path;
}

TEST_CASE("if only one of two plugins can be loaded, it is taken", "[unit]") {
    const tests::PrivateFolder folder;
    const std::string first = unloadable(folder, "librueda_mpi.so");
    const std::string stand_in = RUEDA_STAND_IN_PLUGIN;
    for (const std::optional<MpiAbi> abi : {std::optional<MpiAbi>(), std::optional(MpiAbi::mpich)}) {
        const auto loaded = load_first_mpi_plugin({folder.path() + "/absent.so", first, stand_in}, abi);
        INFO(loaded.status().message());
        REQUIRE(loaded.is_ok());
        CHECK(loaded.value()->abi == MpiAbi::mpich);
    }
}

TEST_CASE("if no plugin can be used, the error names each plugin and the reason", "[unit]") {
    const tests::PrivateFolder folder;
    const std::string first = unloadable(folder, "librueda_mpi.so");
    const std::string second = unloadable(folder, "librueda_mpich.so");
    const auto neither = load_first_mpi_plugin({first, second}, std::nullopt);
    CHECK(neither.status().code() == ErrorCode::unsupported);
    CHECK_THAT(neither.status().message(),
               Catch::StartsWith("the MPI plugin '" + first + "' cannot be loaded: ") &&
                   Catch::Contains("; and the MPI plugin '" + second + "' cannot be loaded: ") &&
                   Catch::Contains("invalid ELF header") && Catch::Contains("RUEDA_MPI_PLUGIN"));
    const auto other = load_first_mpi_plugin({first, RUEDA_STAND_IN_PLUGIN}, MpiAbi::open_mpi);
    CHECK_THAT(other.status().message(),
               Catch::Contains(first) &&
                   Catch::Contains("stand_in_plugin.so' is for MPICH, but the MPI of this job is Open MPI"));
}

TEST_CASE("a process that nobody started with others is alone", "[unit]") {
    const auto selected = select_control_plane({}, environment_of({}));
    REQUIRE(selected.is_ok());
    CHECK(selected.value().control_plane->description() == "single process");
    CHECK(selected.value().notice.empty());
    CHECK(selected.value().launch_ranks == std::vector<int>{0});
    CHECK(selected.value().launch_size == 1);
}

Membership of_ranks(std::vector<int> ranks) { return {true, std::move(ranks), {}}; }

TEST_CASE("without a launcher, a list can only contain rank 0, and a communicator needs MPI", "[unit]") {
    const auto said = [](const Membership& membership) {
        return outcome(select_control_plane({}, environment_of({}), {}, membership).status());
    };
    CHECK(said(of_ranks({0})) == "ok");
    CHECK(said(of_ranks({0, 1})).starts_with("InvalidArgument: init: there is no rank 1; 1 processes were launched"));
    CHECK(said({false, {}, std::vector<std::byte>(8)})
              .starts_with("Unsupported: init: a communicator was given, and this process has not loaded MPI"));
}

TEST_CASE("disjoint lists meet by the same setting", "[processes]") {
    const std::string name = tests::fresh_socket_name();
    const auto ends = tests::run_processes(5, [&](int rank) -> std::string {
        const bool is_odd = rank % 2 != 0;
        std::vector<int> asked;
        const Interruption note = [&](int own, int size) {
            asked = {own, size};
            return Status();
        };
        auto selected = select_control_plane(identity(rank, 5, name), environment_of({}), note,
                                             of_ranks(is_odd ? std::vector{3, 1} : std::vector{0, 4, 2}));
        if (!selected.is_ok()) {
            return outcome(selected.status());
        }
        if (selected.value().launch_ranks != (is_odd ? std::vector{1, 3} : std::vector{0, 2, 4}) ||
            selected.value().launch_size != 5 || (!asked.empty() && asked != std::vector{rank, 5})) {
            return "the numbers of the launch are wrong";
        }
        return tests::exercise(*selected.value().control_plane, rank / 2, is_odd ? 2 : 3, 100);
    });
    CHECK(ends == std::vector<std::string>(5, "ok"));
}

TEST_CASE("ranks that meet over TCP need a secret from the launcher, and form one job together", "[unit]") {
    const Config config = identity(0, 3, "tcp:192.0.2.1:4711");
    const auto opened = [&](const LaunchFacts& facts, const Membership& membership = {}) {
        return outcome(kSocketCandidate.open({config, facts, {}, membership, {}}).status());
    };
    CHECK_THAT(opened({}), Catch::Contains("needs a secret by which the ranks recognise each other"));
    LaunchFacts facts = read_launch_facts(environment_of({{"RUEDA_RENDEZVOUS_SECRET", "sesame"}}));
    CHECK(facts.rendezvous_secret == "sesame");
    const auto secret_in = [](const char* generation) {
        return read_launch_facts(
                   environment_of({{"RUEDA_RENDEZVOUS_SECRET", "sesame"}, {"RUEDARUN_GENERATION", generation}}))
            .rendezvous_secret;
    };
    CHECK(secret_in("2") == "sesame:2");  // in an elastic job, only ranks of the same generation connect to each other
    CHECK(read_launch_facts(environment_of({{"RUEDARUN_GENERATION", "2"}})).rendezvous_secret.empty());
    CHECK_THAT(opened(facts), Catch::Contains("rank 0 cannot listen at any address of 'tcp:192.0.2.1:4711'"));
    Membership part;
    part.has_list = true;
    part.ranks = {0, 2};
    CHECK_THAT(
        opened(facts, part),
        Catch::StartsWith("Unsupported: init as a job of the ranks 0, 2: the ranks of this launch meet over TCP, "
                          "where only all 3 ranks together can form a job"));
}

TEST_CASE("ranks that settings name meet by their socket", "[processes]") {
    const std::string name = tests::fresh_socket_name();
    const auto ends = tests::run_processes(3, [&](int rank) {
        auto selected = select_control_plane(identity(rank, 3, name), environment_of({}));
        return selected.is_ok() ? tests::exercise(*selected.value().control_plane, rank, 3, 100)
                                : outcome(selected.status());
    });
    CHECK(ends == std::vector<std::string>(3, "ok"));
}

}  // namespace
}  // namespace rueda::collectives
