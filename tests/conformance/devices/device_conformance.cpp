// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The Rueda authors
/// Runs the conformance suite with tensors on simulated GPUs, one for each rank. The ranks are threads. The exit status
/// is 0 if the suite passes, and 1 if it fails (with a description on standard error).
///
/// Usage: device_conformance RANKS [all|tiny|in_a_set|host [SEED [LAYOUT]]]. With "host", all tensors move through the
/// host's memory. The seed decides in which order the simulated GPUs do work that has no order, and how long it takes.
/// The layout places the ranks on several hosts: "aab" means two ranks on host a and one on host b.
#include <algorithm>
#include <array>
#include <cstdio>
#include <cstdlib>
#include <string>
#include <string_view>
#include <vector>

#include "tests/conformance/devices/device_client.hpp"
#include "tests/conformance/jobs.hpp"
#include "tests/conformance/scenarios.hpp"
#include "tests/support/gpu_stand_in/control.hpp"

namespace rueda::tests {
namespace {

/// Scenarios whose results on GPUs differ by more than rounding. docs/gpu.md describes the differences. Tensors that
/// move through the host's memory have the CPU's results.
constexpr std::array kOtherResults{
    std::string_view("allreduce: averages of integers"),  // on a GPU, the sum wraps around before the division
    std::string_view("allreduce: bool"),                  // on a GPU, values other than 0 and 1 are not normalised to 1
};

std::vector<Scenario> scenarios_on_gpus(std::string_view mode) {
    std::vector<Scenario> all = all_scenarios();
    std::erase_if(all, [mode](const Scenario& scenario) {
        return mode != "host" &&
               std::find(kOtherResults.begin(), kOtherResults.end(), scenario.name) != kOtherResults.end();
    });
    return all;
}

void run_on_device(RankContext& context, DeviceClient& client, std::string_view mode) {
    for (const Scenario& scenario : scenarios_on_gpus(mode)) {
        context.phase(scenario.name);
        run_scenarios(client, {&scenario, 1});
    }
    run_scenarios(client, join_scenarios());
    RUEDA_RANK_CHECK(client.on_device() > 1000);
}

/// Runs the whole suite in a process set that does not contain all ranks.
void run_in_a_set(RankContext& context, RuntimeClient& world) {
    std::vector<int> ranks;
    for (int rank = 0; rank + 1 < world.size(); ++rank) {
        ranks.push_back(rank);
    }
    auto set = world.add_set(ranks);
    set.status().throw_if_failed();
    if (set.value() != nullptr) {
        DeviceClient client(*set.value(), context.rank());
        context.phase("scenarios");
        run_scenarios(client, scenarios_on_gpus("in_a_set"));
        RUEDA_RANK_CHECK(client.on_device() > 1000);
    }
}

int run(int ranks, std::string_view mode, std::uint64_t seed, const Layout& layout) {
    gpu::reset(seed, /*devices=*/8);
    gpu::set_delays(std::chrono::microseconds(20));
    base::Config config = mode == "tiny" ? tiny_config() : test_config();
    config.cuda_library = RUEDA_CUDA_PLUGIN_FILE;
    config.gpu_path = mode == "host" ? base::GpuPath::host : base::GpuPath::automatic;
    const auto body = [mode](RankContext& context, RuntimeClient& world) {
        if (mode == "in_a_set") {
            run_in_a_set(context, world);
            return;
        }
        DeviceClient client(world, context.rank());
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
