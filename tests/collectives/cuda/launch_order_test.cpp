// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The Rueda authors
// Tests the order in which the batches of several process sets are launched, and the list of the sets that need such an
// order.
#include "collectives/cuda/order/launch_order.hpp"

#include <algorithm>
#include <catch2/catch.hpp>
#include <cstddef>
#include <cstdint>
#include <deque>
#include <map>
#include <optional>
#include <random>
#include <utility>
#include <vector>

#include "collectives/cuda/order/nccl_sets.hpp"

namespace rueda::collectives::cuda {
namespace {

constexpr std::optional<std::int32_t> kNothing;

TEST_CASE("A batch is launched when no lower number can come", "[unit]") {
    LaunchOrder order;
    const int a = 0;
    const int b = 0;
    CHECK(order.enter(&a, 0, 1) == 1);
    CHECK(order.awaited(&a) == 1);  // set a has not agreed on a number for its batch yet
    CHECK(order.enter(&b, 0, 2) == 2);
    order.agree(&b, 2);
    CHECK(order.awaited(&b) == 1);  // a's number may become 1
    order.agree(&a, 7);
    CHECK(order.awaited(&a) == 2);
    CHECK(order.awaited(&b) == kNothing);
    order.leave(&b);
    CHECK(order.awaited(&a) == kNothing);
    // The new batch of set b gets a higher number than all earlier batches, so the batch of set a still comes first.
    CHECK(order.enter(&b, 0, 2) == 8);
    order.agree(&b, 8);
    CHECK(order.awaited(&a) == kNothing);
    CHECK(order.awaited(&b) == 1);
    order.leave(&a);
    order.leave(&a);
    CHECK(order.awaited(&b) == kNothing);
}

TEST_CASE("Equal numbers are ordered by the numbers of the sets", "[unit]") {
    LaunchOrder order;
    const int a = 0;
    const int b = 0;
    static_cast<void>(order.enter(&a, 0, 9));
    static_cast<void>(order.enter(&b, 0, 3));
    order.agree(&a, 5);
    order.agree(&b, 5);
    CHECK(order.awaited(&b) == kNothing);
    CHECK(order.awaited(&a) == 3);
}

TEST_CASE("Devices wait for their own batches only, and count together", "[unit]") {
    LaunchOrder order;
    const int a = 0;
    const int b = 0;
    static_cast<void>(order.enter(&a, 0, 1));
    CHECK(order.enter(&b, 1, 2) == 2);
    order.agree(&b, 10);
    CHECK(order.awaited(&b) == kNothing);
    order.leave(&a);
    CHECK(order.enter(&a, 0, 1) == 11);
}

/// Whether each process counts its batches (correct), or each device counts its batches (a planted defect).
enum class Count : std::uint8_t { of_process, of_device };

/// A model of a job: processes with devices, and process sets. A set has at most one device of each process. Each
/// member goes through the batches of its sets in the order of the sets' logs, and the steps of all members are
/// interleaved at random. A new batch may also depend on earlier batches that the process has launched on any of its
/// devices. The program then makes the new batch wait for their ends.
class Job {
public:
    Job(std::uint64_t seed, std::size_t processes, std::size_t devices, std::size_t sets, Count count)
        : random_(seed), count_(count), orders_(processes * devices), devices_(devices) {
        for (std::size_t s = 0; s < sets; ++s) {
            Set& set = sets_.emplace_back();
            while (set.members.size() < 2) {
                set.members.clear();
                for (std::size_t p = 0; p < processes; ++p) {
                    if (random_() % 2 == 0) {
                        set.members.push_back({.process = p, .device = random_() % devices});
                    }
                }
            }
        }
    }

    /// Returns whether all batches were launched on all members.
    bool launch() {
        std::size_t idle = 0;
        while (idle < kIdleSteps) {
            idle = step(random_() % sets_.size()) ? 0 : idle + 1;
        }
        return std::all_of(sets_.begin(), sets_.end(), [](const Set& set) {
            return std::all_of(set.members.begin(), set.members.end(),
                               [](const Member& member) { return member.batch == kBatches; });
        });
    }

    /// Executes the queues of the devices as GPUs do. A batch ends when two conditions are true: it is the first one in
    /// the queues of all its members, and all batches for which it waits have ended. Returns whether all queues become
    /// empty.
    bool execute() {
        bool any = true;
        while (any) {
            any = false;
            for (std::size_t s = 0; s < sets_.size(); ++s) {
                if (may_end(s)) {
                    for (const Member& member : sets_[s].members) {
                        queues_[{member.process, member.device}].pop_front();
                    }
                    ++sets_[s].ended;
                    any = true;
                }
            }
        }
        return std::all_of(queues_.begin(), queues_.end(), [](const auto& queue) { return queue.second.empty(); });
    }

private:
    static constexpr std::size_t kBatches = 6;
    static constexpr std::size_t kIdleSteps = 3000;
    enum class Phase : std::uint8_t { away, announced, entered, agreed };
    struct Batch {
        std::size_t set;
        std::size_t number;
    };
    struct Member {
        std::size_t process = 0;
        std::size_t device = 0;
        std::size_t batch = 0;
        Phase phase = Phase::away;
        std::vector<Batch> waits_for{};  // the batches that must end before the announced batch may run
    };
    struct Launched {
        Batch batch;
        std::vector<Batch> waits_for;
    };
    struct Set {
        std::vector<Member> members;
        std::vector<std::size_t> announced = std::vector<std::size_t>(kBatches);  // the number of members
        std::vector<std::vector<std::uint64_t>> proposals{kBatches};
        std::size_t ended = 0;
    };

    LaunchOrder& order_of(const Member& member) {
        return orders_[member.process * devices_ + (count_ == Count::of_process ? 0 : member.device)];
    }

    bool may_end(std::size_t s) {
        return std::all_of(sets_[s].members.begin(), sets_[s].members.end(), [&](const Member& member) {
            const auto& queue = queues_[{member.process, member.device}];
            return !queue.empty() && queue.front().batch.set == s &&
                   std::all_of(queue.front().waits_for.begin(), queue.front().waits_for.end(),
                               [this](const Batch& other) { return sets_[other.set].ended > other.number; });
        });
    }

    void announce(Set& set, Member& member) {
        member.waits_for.clear();
        for (std::size_t device = 0; device < devices_; ++device) {
            const auto& queue = queues_[{member.process, device}];
            if (!queue.empty() && random_() % 2 == 0) {
                member.waits_for.push_back(queue.back().batch);
            }
        }
        ++set.announced[member.batch];
        member.phase = Phase::announced;
    }

    bool step(std::size_t s) {
        Set& set = sets_[s];
        Member& member = set.members[random_() % set.members.size()];
        if (member.batch == kBatches) {
            return false;
        }
        LaunchOrder& order = order_of(member);
        auto& proposals = set.proposals[member.batch];
        switch (member.phase) {
            case Phase::away:
                announce(set, member);
                return true;
            case Phase::announced:
                if (set.announced[member.batch] < set.members.size()) {
                    return false;  // some members have not announced the batch yet
                }
                proposals.push_back(
                    order.enter(&member, static_cast<int>(member.device), static_cast<std::int32_t>(s)));
                member.phase = Phase::entered;
                return true;
            case Phase::entered:
                if (proposals.size() < set.members.size()) {
                    return false;
                }
                order.agree(&member, *std::max_element(proposals.begin(), proposals.end()));
                member.phase = Phase::agreed;
                return true;
            case Phase::agreed:
                if (order.awaited(&member)) {
                    return false;
                }
                queues_[{member.process, member.device}].push_back({{s, member.batch}, member.waits_for});
                order.leave(&member);
                member.phase = Phase::away;
                ++member.batch;
                return true;
        }
        return false;
    }

    std::mt19937_64 random_;
    const Count count_;
    std::deque<LaunchOrder> orders_;  // one LaunchOrder for each process, or one for each device of each process
    const std::size_t devices_;
    std::vector<Set> sets_;
    std::map<std::pair<std::size_t, std::size_t>, std::deque<Launched>> queues_;  // by process and device
};

TEST_CASE("Process sets that overlap launch their batches in an order without a deadlock", "[unit]") {
    for (std::uint64_t seed = 0; seed < 300; ++seed) {
        Job job(seed, 2 + seed % 5, 1 + seed % 2, 2 + seed / 5 % 6, Count::of_process);
        INFO("seed " << seed);
        REQUIRE(job.launch());
        REQUIRE(job.execute());
    }
}

TEST_CASE("With a count for each device, programs that use several devices could deadlock", "[unit]") {
    bool is_found = false;
    for (std::uint64_t seed = 0; seed < 3000 && !is_found; ++seed) {
        Job job(seed, 2 + seed % 3, 2, 3 + seed % 4, Count::of_device);
        REQUIRE(job.launch());
        is_found = !job.execute();
    }
    CHECK(is_found);
}

TEST_CASE("A set that is alone has no order, and a set that comes later cannot have one with it", "[unit]") {
    NcclSets sets;
    const int first = 0;
    const int second = 0;
    const int third = 0;
    const auto alone = sets.add({.owner = &first, .set = 4, .rank = 0, .device = 0}, false);
    CHECK((!alone.any && !alone.without_order));
    const auto later = sets.add({.owner = &second, .set = 5, .rank = 0, .device = 0}, false);
    CHECK((later.any && later.without_order == 4));
    CHECK(sets.is_asked(&first));
    CHECK_FALSE(sets.is_asked(&second));
    // The members of the first set decide that this set gets an order, because one of them is also a member of other
    // sets.
    sets.decide(&first, true);
    const auto again = sets.add({.owner = &third, .set = 6, .rank = 0, .device = 0}, false);
    CHECK((again.any && !again.without_order));
    sets.remove(&first);
    sets.remove(&second);
    sets.remove(&third);
    const auto at_last = sets.add({.owner = &second, .set = 5, .rank = 0, .device = 0}, false);
    CHECK((!at_last.any && !at_last.without_order));
}

TEST_CASE("A set that expects others has an order with them", "[unit]") {
    NcclSets sets;
    const int first = 0;
    const int second = 0;
    CHECK(sets.add({.owner = &first, .set = 4, .rank = 0, .device = 0}, true).any);
    const auto other = sets.add({.owner = &second, .set = 5, .rank = 0, .device = 1}, false);
    CHECK((other.any && !other.without_order));
    // This rank expects other sets. Nevertheless, the members of the first set decide to use NCCL without an order. The
    // first set then counts as a set without an order.
    sets.decide(&first, false);
    CHECK(sets.add({.owner = &second, .set = 5, .rank = 0, .device = 1}, false).without_order == 4);
}

TEST_CASE("Other ranks of the process on other devices do not count, and neither does the set itself", "[unit]") {
    NcclSets sets;
    const int first = 0;
    const int second = 0;
    const int third = 0;
    static_cast<void>(sets.add({.owner = &first, .set = 4, .rank = 0, .device = 0}, false));
    CHECK_FALSE(sets.add({.owner = &second, .set = 5, .rank = 1, .device = 1}, false).any);
    CHECK_FALSE(sets.add({.owner = &third, .set = 4, .rank = 2, .device = 0}, false).any);
    CHECK(sets.add({.owner = &third, .set = 6, .rank = 2, .device = 0}, false).without_order == 4);
}

}  // namespace
}  // namespace rueda::collectives::cuda
