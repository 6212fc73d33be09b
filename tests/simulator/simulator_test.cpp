// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The Rueda authors
#include <catch2/catch.hpp>
#include <numeric>

#include "benchmarks/simulator/model.hpp"

namespace rueda::simulator {
namespace {

Job job_of(std::uint32_t hosts, std::uint32_t tensors) {
    Job job;
    job.hosts = hosts;
    job.tensors = tensors;
    job.backward = 10'000'000;
    return job;
}

TEST_CASE("every host gets every tensor once, in one order, with stragglers and many tensors under way") {
    for (const std::uint32_t hosts : {1U, 2U, 20U, 100U}) {
        for (const std::uint32_t tensors : {1U, 300U}) {
            Job job = job_of(hosts, tensors);
            job.stragglers = 0.1;
            job.backward = 1'000'000;
            for (const StepResult& step : simulate_tree(job, Costs(), 3)) {
                CHECK(step.exactly_once);
                CHECK(step.delays.size() == tensors);
                CHECK(step.delays.front() >= 0);
            }
        }
    }
}

TEST_CASE("the tree's depth grows with the logarithm of the hosts") {
    CHECK(depth_of_tree(job_of(1, 1)) == 0);
    CHECK(depth_of_tree(job_of(9, 1)) == 1);
    CHECK(depth_of_tree(job_of(73, 1)) == 2);
    CHECK(depth_of_tree(job_of(512, 1)) == 3);
    CHECK(depth_of_tree(job_of(4096, 1)) == 4);
}

TEST_CASE("a round costs at most three messages for each host but the root, and the root the same work in every job") {
    const std::vector<std::uint32_t> all_hosts = {73, 200, 512};
    Nanoseconds root = 0;
    for (const std::uint32_t hosts : all_hosts) {
        // Each host except the root sends one message to its parent and gets one from it. If the parent had nothing
        // else to send, the host also gets an acknowledgement.
        const StepResult alone = simulate_tree(job_of(hosts, 1), Costs(), 2).back();
        CHECK(alone.rounds == 1);
        CHECK(alone.messages >= 2 * (hosts - 1));
        CHECK(alone.messages <= 3 * (hosts - 1));
        CHECK(alone.most_messages <= 3 * (job_of(hosts, 1).radix + 1));
        root = root == 0 ? alone.coordinator : root;
        CHECK(alone.coordinator <= root + root / 4);
    }
}

TEST_CASE("announcements that wait behind a message in transit share the next message, so no queue forms") {
    Job job = job_of(64, 500);
    const StepResult spread = simulate_tree(job, Costs(), 2).back();
    job.backward = 100'000;
    job.skew = job.noise = 0;
    job.stragglers = 0;
    const StepResult crowded = simulate_tree(job, Costs(), 2).back();
    CHECK(crowded.exactly_once);
    CHECK(crowded.messages < spread.messages / 4);
}

TEST_CASE("with two hosts and one tensor the delay is the sum of its parts") {
    Job job = job_of(2, 1);
    job.skew = job.noise = 0;
    job.stragglers = 0;
    Costs costs;
    costs.bytes_per_nanosecond = 1;
    const StepResult step = simulate_tree(job, costs, 2).back();
    // Both hosts announce at the same time, and decide when they have the message of the other host. The message of
    // host 1 has 33 bytes and 12 more bytes for the announcement.
    const Nanoseconds up = costs.item + (costs.send + costs.item) + (33 + 12) + costs.latency;
    const Nanoseconds at_receiver = (costs.receive + costs.item) + costs.item;
    REQUIRE(step.delays.size() == 1);
    // The root sends its offer at the same time. The offer has 50 bytes, because it contains the metadata. So it
    // arrives later than the announcement.
    CHECK(step.delays[0] == up + at_receiver + (50 - 12));
    CHECK(step.messages == 2);
}

TEST_CASE("Horovod's cycles: all ranks in every cycle, and rank 0 has all lists where names are new") {
    Job job = job_of(8, 10);
    job.skew = job.noise = 0;
    job.stragglers = 0;
    const auto steps = simulate_cycles(job, Costs(), 2);
    // An exchange between 64 ranks has 6 rounds of doubling. The last tensor becomes ready after 10 ms. Horovod begins
    // a cycle every millisecond, so there are 11 cycles.
    CHECK(steps[1].rounds == 11);
    CHECK(steps[1].messages == 11 * 64 * 6);
    CHECK(steps[0].messages == 11 * 64 * 6 + 10 * 2 * 63);
    CHECK(steps[0].coordinator > 10 * 63 * Costs().receive);
    // If there are more tensors than the cache can hold, all tensors are new in every step.
    job.cache_capacity = 9;
    CHECK(simulate_cycles(job, Costs(), 2)[1].messages == steps[0].messages);
}

TEST_CASE("the same seed gives the same figures, another one others") {
    const auto sum = [](std::uint64_t seed) {
        Job job = job_of(10, 50);
        job.seed = seed;
        const StepResult step = simulate_tree(job, Costs(), 2).back();
        return std::accumulate(step.delays.begin(), step.delays.end(), step.busiest);
    };
    CHECK(sum(1) == sum(1));
    CHECK(sum(1) != sum(2));
}

TEST_CASE("arrivals: sorted, a host's when its last rank has it, and all counted") {
    Job job = job_of(3, 40);
    job.stragglers = 0.2;
    const Arrivals arrivals = arrivals_of(job, 1);
    CHECK(std::accumulate(arrivals.counts.begin(), arrivals.counts.end(), std::uint64_t{0}) == 40U * job.ranks());
    std::vector<Nanoseconds> last(40, 0);
    for (const auto& host : arrivals.by_host) {
        REQUIRE(host.size() == 40);
        for (std::size_t i = 0; i < host.size(); ++i) {
            CHECK((i == 0 || host[i - 1].at <= host[i].at));
            last[host[i].tensor] = std::max(last[host[i].tensor], host[i].at);
        }
    }
    CHECK(last == arrivals.last);
}

}  // namespace
}  // namespace rueda::simulator
