// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The Rueda authors
/// Runs the conformance suite with tensors on simulated GPUs, one for each rank. The ranks are threads. The exit status
/// is 0 if the suite passes, and 1 if it fails (with a description on standard error).
///
/// Usage: device_conformance RANKS [all|tiny|in_a_set|host [SEED [LAYOUT]]]. With "host", all tensors move through the
/// host's memory. The seed decides in which order the simulated GPUs do work that has no order, and how long it takes.
/// The layout places the ranks on several hosts: "aab" means two ranks on host a and one on host b.
#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cstdio>
#include <cstdlib>
#include <map>
#include <string>
#include <string_view>
#include <vector>

#include "tests/conformance/devices/device_client.hpp"
#include "tests/conformance/jobs.hpp"
#include "tests/conformance/scenarios.hpp"
#include "tests/support/gpu_stand_in/control.hpp"

namespace rueda::tests {
namespace {

/// With "host", tensors have the CPU's results, because they move through the host's memory.
std::vector<Scenario> scenarios_of(std::string_view mode) {
    return mode == "host" ? all_scenarios() : scenarios_on_gpus();
}

/// Requires that the client used its GPU, and that its stream waited for about half of the operations.
void check_use(const DeviceClient& client) {
    RUEDA_RANK_CHECK(client.on_device() > 1000);
    RUEDA_RANK_CHECK(client.stream_waits() > 200);
}

void run_on_device(RankContext& context, DeviceClient& client, std::string_view mode) {
    for (const Scenario& scenario : scenarios_of(mode)) {
        context.phase(scenario.name);
        run_scenarios(client, {&scenario, 1});
    }
    run_scenarios(client, join_scenarios());
    check_use(client);
}

/// Runs the whole suite in a process set that does not contain all ranks.
void run_in_a_set(RankContext& context, RuntimeClient& world, std::uint64_t seed) {
    std::vector<int> ranks;
    for (int rank = 0; rank + 1 < world.size(); ++rank) {
        ranks.push_back(rank);
    }
    auto set = world.add_set(ranks);
    set.status().throw_if_failed();
    if (set.value() != nullptr) {
        DeviceClient client(*set.value(), context.rank(), seed);
        context.phase("scenarios");
        run_scenarios(client, scenarios_on_gpus());
        check_use(client);
    }
}

/// Returns a description of what is wrong with the use of NCCL, or an empty string. With "host", no member may use
/// NCCL. In the other modes, NCCL must execute operations of all kinds. If Rueda silently moved the tensors through the
/// host's memory, all results would be right, but the suite would not test NCCL.
std::string complaint_about_nccl(std::size_t members, std::string_view mode) {
    constexpr std::size_t kLeast = 10;  // operations of each kind for each member
    const std::size_t connected = gpu::calls("ncclCommInitRankConfig");
    const std::vector<std::string> operations = gpu::nccl_operations();
    if (mode == "host") {
        return connected == 0 && operations.empty()
                   ? std::string()
                   : fmt::format("NCCL was used: {} connections, {} operations", connected, operations.size());
    }
    if (connected != members) {
        return fmt::format("{} of {} members connected by NCCL", connected, members);
    }
    std::map<std::string, std::size_t> counts;
    for (const std::string& operation : operations) {
        ++counts[operation.substr(0, operation.find(' '))];
    }
    std::vector<std::string> functions{"ncclAllReduce", "ncclBroadcast", "ncclReduce", "ncclAllGather",
                                       "ncclReduceScatter"};
    if (members > 1) {
        functions.insert(functions.end(), {"ncclSend", "ncclRecv"});
    }
    for (const std::string& function : functions) {
        if (counts[function] < kLeast * members) {
            return fmt::format("NCCL executed {} {} times, expected at least {}", function, counts[function],
                               kLeast * members);
        }
    }
    return {};
}

int run(int ranks, std::string_view mode, std::uint64_t seed, const Layout& layout) {
    gpu::reset(seed, /*devices=*/8);
    gpu::set_delays(std::chrono::microseconds(20));
    base::Config config = mode == "tiny" ? tiny_config() : test_config();
    config.cuda_library = RUEDA_CUDA_PLUGIN_FILE;
    config.gpu_path = mode == "host" ? base::GpuPath::host : base::GpuPath::automatic;
    const auto body = [mode, seed](RankContext& context, RuntimeClient& world) {
        if (mode == "in_a_set") {
            run_in_a_set(context, world, seed);
            return;
        }
        DeviceClient client(world, context.rank(), seed);
        run_on_device(context, client, mode);
    };
    const RanksResult result = run_clients(ranks, config, body, {.deadline = std::chrono::seconds(200)}, layout);
    bool is_passed = true;
    for (const RankOutcome& rank : result.ranks) {
        is_passed = is_passed && rank.end == RankEnd::returned;
    }
    if (!is_passed) {
        std::fprintf(stderr, "%s\n", result.text().c_str());
    }
    const auto members = static_cast<std::size_t>(mode == "in_a_set" ? ranks - 1 : ranks);
    if (const std::string complaint = complaint_about_nccl(members, mode); !complaint.empty()) {
        std::fprintf(stderr, "%s\n", complaint.c_str());
        is_passed = false;
    }
    for (const std::string& violation : gpu::violations()) {
        std::fprintf(stderr, "misuse of the driver: %s\n", violation.c_str());
        is_passed = false;
    }
    if (gpu::live_communicators() != 0) {
        std::fprintf(stderr, "communicators are left\n");
        is_passed = false;
    }
    return is_passed ? EXIT_SUCCESS : EXIT_FAILURE;
}

}  // namespace
}  // namespace rueda::tests

int main(int argc, char** argv) {
    return rueda::tests::run(argc > 1 ? std::atoi(argv[1]) : 2, argc > 2 ? argv[2] : "all",
                             argc > 3 ? std::strtoull(argv[3], nullptr, 10) : 7, argc > 4 ? argv[4] : "");
}
