// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The Rueda authors
#include "collectives/cuda/nccl/launch_order.hpp"

#include <algorithm>
#include <array>
#include <catch2/catch.hpp>
#include <cstddef>
#include <cstdint>
#include <deque>
#include <random>
#include <utility>
#include <vector>

namespace rueda::collectives::cuda {
namespace {

TEST_CASE("A batch is launched when no lower number can come", "[unit]") {
    LaunchOrder order;
    const int a = 0;
    const int b = 0;
    CHECK_FALSE(order.is_next(&a));
    CHECK(order.enter(&a, 1) == 1);
    CHECK_FALSE(order.is_next(&a));  // the members have not agreed on its number
    CHECK(order.enter(&b, 2) == 2);
    order.agree(&b, 2);
    CHECK_FALSE(order.is_next(&b));  // a's number may become 1
    order.agree(&a, 7);
    CHECK_FALSE(order.is_next(&a));
    CHECK(order.is_next(&b));
    order.leave(&b);
    CHECK(order.is_next(&a));
    CHECK(order.enter(&b, 2) == 8);  // higher than every number so far, so a stays the next one
    order.agree(&b, 8);
    CHECK(order.is_next(&a));
    CHECK_FALSE(order.is_next(&b));
    order.leave(&a);
    order.leave(&a);
    CHECK(order.is_next(&b));
}

TEST_CASE("Equal numbers are ordered by the keys of the sets", "[unit]") {
    LaunchOrder order;
    const int a = 0;
    const int b = 0;
    static_cast<void>(order.enter(&a, 9));
    static_cast<void>(order.enter(&b, 3));
    order.agree(&a, 5);
    order.agree(&b, 5);
    CHECK(order.is_next(&b));
    CHECK_FALSE(order.is_next(&a));
}

/// Several devices, and process sets whose members are random devices. Each member goes through the batches of its sets
/// in the order of the sets' logs, and the steps of all members are interleaved at random.
class Job {
public:
    Job(std::uint64_t seed, std::size_t devices, std::size_t sets) : random_(seed), devices_(devices) {
        for (std::size_t s = 0; s < sets; ++s) {
            Set& set = sets_.emplace_back();
            while (set.members.size() < 2) {
                set.members.clear();
                for (std::size_t d = 0; d < devices; ++d) {
                    if (random_() % 2 == 0) {
                        set.members.push_back({.device = d});
                    }
                }
            }
        }
    }

    /// Returns whether all batches were launched on all members.
    bool run() {
        std::size_t idle = 0;
        while (idle < kIdleSteps) {
            idle = step(sets_[random_() % sets_.size()]) ? 0 : idle + 1;
        }
        return std::all_of(sets_.begin(), sets_.end(), [](const Set& set) {
            return std::all_of(set.members.begin(), set.members.end(),
                               [](const Member& member) { return member.batch == kBatches; });
        });
    }

    /// Executes the queues of the devices as GPUs do: a batch ends when it is the first one on all members. Returns
    /// whether all queues become empty.
    bool execute() {
        bool any = true;
        while (any) {
            any = false;
            for (std::size_t s = 0; s < sets_.size(); ++s) {
                const auto is_first = [&](const Member& member) {
                    const auto& queue = devices_[member.device].queue;
                    return !queue.empty() && queue.front() == s;
                };
                if (std::all_of(sets_[s].members.begin(), sets_[s].members.end(), is_first)) {
                    for (const Member& member : sets_[s].members) {
                        devices_[member.device].queue.pop_front();
                    }
                    any = true;
                }
            }
        }
        return std::all_of(devices_.begin(), devices_.end(), [](const Device& device) { return device.queue.empty(); });
    }

private:
    static constexpr std::size_t kBatches = 6;
    static constexpr std::size_t kIdleSteps = 5000;
    enum class Phase : std::uint8_t { away, proposed, agreed };
    struct Member {
        std::size_t device = 0;
        std::size_t batch = 0;
        Phase phase = Phase::away;
    };
    struct Set {
        std::vector<Member> members;
        std::vector<std::vector<std::uint64_t>> proposals{kBatches};
    };
    struct Device {
        LaunchOrder order;
        std::deque<std::size_t> queue;
    };

    bool step(Set& set) {
        Member& member = set.members[random_() % set.members.size()];
        Device& device = devices_[member.device];
        const auto key = static_cast<std::uint64_t>(&set - sets_.data());
        if (member.batch == kBatches) {
            return false;
        }
        auto& proposals = set.proposals[member.batch];
        switch (member.phase) {
            case Phase::away:
                proposals.push_back(device.order.enter(&member, key));
                member.phase = Phase::proposed;
                return true;
            case Phase::proposed:
                if (proposals.size() < set.members.size()) {
                    return false;
                }
                device.order.agree(&member, *std::max_element(proposals.begin(), proposals.end()));
                member.phase = Phase::agreed;
                return true;
            case Phase::agreed:
                if (!device.order.is_next(&member)) {
                    return false;
                }
                device.queue.push_back(static_cast<std::size_t>(key));
                device.order.leave(&member);
                member.phase = Phase::away;
                ++member.batch;
                return true;
        }
        return false;
    }

    std::mt19937_64 random_;
    std::vector<Device> devices_;
    std::vector<Set> sets_;
};

TEST_CASE("Process sets that overlap launch their batches in an order without a deadlock", "[unit]") {
    for (std::uint64_t seed = 0; seed < 300; ++seed) {
        Job job(seed, 2 + seed % 5, 2 + seed / 5 % 6);
        INFO("seed " << seed);
        REQUIRE(job.run());
        REQUIRE(job.execute());
    }
}

}  // namespace
}  // namespace rueda::collectives::cuda
