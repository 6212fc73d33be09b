// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The Rueda authors
// One rank of a job under a real MPI launcher, for CTest. Usage: mpi_job SCENARIO. Only the plugin is linked with MPI.
// The exit status is 0 and nothing is printed if the scenario succeeds. Otherwise the program prints the error.
#include <dlfcn.h>
#include <sys/mman.h>
#include <unistd.h>

#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <map>
#include <string>

#include "collectives/host/sockets/descriptor_exchange.hpp"
#include "collectives/local_group.hpp"
#include "collectives/selection/select_control_plane.hpp"
#include "collectives/transport.hpp"
#include "tests/collectives/plane_checks.hpp"
#include "tests/collectives/transport_checks.hpp"

namespace {

using namespace rueda;
using namespace rueda::collectives;
using tests::outcome;

/// Calls an MPI function that returns a flag, such as MPI_Initialized. The plugin must have loaded MPI before.
bool mpi_says(const char* function) {
    const auto ask = reinterpret_cast<int (*)(int*)>(::dlsym(RTLD_DEFAULT, function));
    int flag = 0;
    return ask != nullptr && ask(&flag) == 0 && flag != 0;
}

base::Config settings() {
    base::Config config;
    const char* const plugin = std::getenv("RUEDA_MPI_PLUGIN");
    config.mpi_library = plugin == nullptr ? "" : plugin;
    return config;
}

/// Returns the number in an environment variable of the launcher. The variable has different names in Open MPI and
/// MPICH.
int number_in_environment(const char* open_mpi, const char* mpich) {
    const char* const text = std::getenv(open_mpi);
    return std::atoi(text == nullptr ? std::getenv(mpich) : text);
}
int launched_rank() { return number_in_environment("OMPI_COMM_WORLD_RANK", "PMI_RANK"); }
int launched_size() { return number_in_environment("OMPI_COMM_WORLD_SIZE", "PMI_SIZE"); }

std::string share_memory(ControlPlane& plane) {
    auto group = find_local_group(plane);
    if (!group.is_ok()) {
        return outcome(group.status());
    }
    if (group.value().local_size != plane.size() || group.value().local_rank != plane.rank()) {
        return "the grouping is wrong";
    }
    base::UniqueFd memory;
    if (group.value().is_leader()) {
        memory.reset(::memfd_create("rueda-test", MFD_CLOEXEC));
        if (::ftruncate(memory.value(), 4096) != 0) {
            return "ftruncate failed";
        }
    }
    auto shared = share_descriptor(plane, group.value(), memory.value(), std::chrono::seconds(20));
    if (!shared.is_ok()) {
        return outcome(shared.status());
    }
    void* const address = ::mmap(nullptr, 4096, PROT_READ | PROT_WRITE, MAP_SHARED, shared.value().value(), 0);
    if (address == MAP_FAILED) {
        return "mmap failed";
    }
    auto* const bytes = static_cast<unsigned char*>(address);
    bytes[plane.rank()] = static_cast<unsigned char>(plane.rank() + 1);
    if (!plane.barrier().is_ok()) {
        return "no barrier";
    }
    for (int r = 0; r < plane.size(); ++r) {
        if (bytes[r] != r + 1) {
            return fmt::format("rank {} is not seen", r);
        }
    }
    return "ok";
}

std::string exchange() {
    if (mpi_says("MPI_Initialized")) {
        return "MPI is there before the plugin";
    }
    auto selected = select_control_plane(settings(), base::process_environment());
    if (!selected.is_ok()) {
        return outcome(selected.status());
    }
    ControlPlane& plane = *selected.value().control_plane;
    if (!plane.description().starts_with("mpi (") || !mpi_says("MPI_Initialized")) {
        return fmt::format("MPI was not used: {}", plane.description());
    }
    std::string result = tests::exercise(plane, launched_rank(), launched_size(), 300'000);
    if (result == "ok") {
        result = share_memory(plane);
    }
    if (result == "ok") {
        result = tests::exercise_transport(*plane.transport(), plane.rank(), plane.size(), 300'000);
    }
    plane.close(false);
    return result == "ok" && mpi_says("MPI_Finalized") ? "MPI was finalised before the process ends" : result;
}

/// One rank has a wrong setting. All ranks must get the same error, and no rank may hang.
std::string wrong_size() {
    base::Config config = settings();
    const int size = launched_size();
    if (launched_rank() == size - 1) {
        config.size = size + 1;
    }
    const auto selected = select_control_plane(config, base::process_environment());
    const std::string expected = fmt::format("InvalidArgument: RUEDA_SIZE is {} but MPI's size is {}", size + 1, size);
    const std::string found = outcome(selected.status());
    return found.starts_with(expected) ? "ok" : found;
}

/// Imitates another MPI's launcher, whose environment announces 4 processes, although MPI finds one.
std::string another_launcher() {
    const auto selected = select_control_plane(settings(), base::environment_of({{"OMPI_COMM_WORLD_SIZE", "4"}}));
    const std::string found = outcome(selected.status());
    return found.starts_with("Unsupported: mpirun (OMPI_COMM_WORLD_SIZE) started 4 processes but MPI's size is 1")
               ? "ok"
               : found;
}

}  // namespace

int main(int argc, char** argv) {
    const std::map<std::string, std::string (*)()> scenarios{
        {"exchange", exchange}, {"wrong_size", wrong_size}, {"another_launcher", another_launcher}};
    const auto scenario = argc == 2 ? scenarios.find(argv[1]) : scenarios.end();
    const std::string result = scenario == scenarios.end() ? "no such scenario" : scenario->second();
    if (result != "ok") {
        std::fprintf(stderr, "%s\n", result.c_str());
        return 1;
    }
    return 0;
}
