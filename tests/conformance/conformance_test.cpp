// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The Rueda authors
/// Runs the conformance suite on core::Runtime in one configuration. CMakeLists.txt makes a test of each configuration.
/// The exit status is 0 if the suite passes, 1 if it fails (with a description on standard error), and 2 after wrong
/// usage.
///
/// Usage: conformance_test threads|processes RANKS|LAYOUT [tiny|patient] [verify=N] [in_a_set|groups_and_roots]
#include <fmt/format.h>

#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <exception>
#include <future>
#include <numeric>
#include <stdexcept>
#include <string>
#include <string_view>
#include <vector>

#include "tests/conformance/jobs.hpp"
#include "tests/conformance/scenarios.hpp"

namespace rueda::tests {
namespace {

struct JobConfiguration {
    RanksAs as = RanksAs::threads;
    int ranks = 0;
    Layout layout;  ///< the host of each rank: "aab" means two ranks on host a and one on host b; empty means one host
    base::Config config = test_config();
    /// Usually the suite ends within seconds. If other programs use all cores, each wait of a rank for another rank
    /// lasts a whole time slice. The deadline is long enough for this.
    std::chrono::seconds deadline{280};
    bool in_a_set = false;
    bool groups_and_roots = false;
};

/// Runs the scenarios in the world and, on a second thread, in a set of all ranks except the last. The operations in
/// the world have the same names as the operations in the set. Nevertheless, the operations in the world and the
/// operations in the set must not wait for each other.
void run_in_two_sets(RankContext& context, RuntimeClient& world) {
    std::vector<int> ranks(static_cast<std::size_t>(world.size() - 1));
    std::iota(ranks.begin(), ranks.end(), 0);
    auto set = world.add_set(ranks);
    set.status().throw_if_failed();
    context.phase("scenarios");
    std::future<void> in_set = std::async(std::launch::async, [&set] {
        if (set.value() != nullptr) {
            run_scenarios(*set.value(), all_scenarios());
        }
    });
    run_scenarios(world, all_scenarios());
    in_set.get();
}

void run_groups_and_roots(RankContext& context, RuntimeClient& client) {
    context.phase("groups");
    run_scenarios(client, group_scenarios());
    context.phase("roots");
    run_scenarios(client, root_scenarios());
}

void run_all(RankContext& context, RuntimeClient& client) {
    for (const Scenario& scenario : all_scenarios()) {
        context.phase(scenario.name);
        run_scenarios(client, {&scenario, 1});
    }
    run_scenarios(client, join_scenarios());
}

RanksResult run_job(const JobConfiguration& job) {
    const auto body = job.in_a_set ? run_in_two_sets : job.groups_and_roots ? run_groups_and_roots : run_all;
    return run_clients(job.ranks, job.config, body, {.as = job.as, .deadline = job.deadline}, job.layout);
}

JobConfiguration parse(const std::vector<std::string_view>& words) {
    if (words.size() < 2 || (words[0] != "threads" && words[0] != "processes") || words[1].empty()) {
        throw std::invalid_argument(
            "usage: conformance_test threads|processes RANKS|LAYOUT [tiny|patient] [verify=N] "
            "[in_a_set|groups_and_roots]");
    }
    JobConfiguration job;
    job.as = words[0] == "threads" ? RanksAs::threads : RanksAs::processes;
    if (words[1].front() >= 'a') {
        job.layout = words[1];
        job.ranks = static_cast<int>(words[1].size());
    } else {
        job.ranks = std::stoi(std::string(words[1]));
    }
    for (std::size_t i = 2; i < words.size(); ++i) {
        if (words[i] == "tiny") {
            job.config = tiny_config();
        } else if (words[i] == "patient") {
            job.config = patient_config();
            job.deadline = std::chrono::seconds(90);  // the suite must report a lost wake-up before CTest ends the test
        } else if (words[i].starts_with("verify=")) {
            job.config.verify = static_cast<std::uint32_t>(std::stoul(std::string(words[i].substr(7))));
            job.config.call_sites = true;
        } else if (words[i] == "in_a_set") {
            job.in_a_set = true;
        } else if (words[i] == "groups_and_roots") {
            job.groups_and_roots = true;
        } else {
            throw std::invalid_argument(fmt::format("'{}' is not an argument of conformance_test", words[i]));
        }
    }
    return job;
}

}  // namespace
}  // namespace rueda::tests

int main(int argc, char** argv) {
    try {
        const rueda::tests::RanksResult result = rueda::tests::run_job(rueda::tests::parse({argv + 1, argv + argc}));
        if (!result.passed()) {
            std::fprintf(stderr, "%s\n", result.text().c_str());
            return EXIT_FAILURE;
        }
        return EXIT_SUCCESS;
    } catch (const std::invalid_argument& error) {
        std::fprintf(stderr, "%s\n", error.what());
        return 2;
    }
}
