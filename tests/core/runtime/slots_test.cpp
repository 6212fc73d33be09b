// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The Rueda authors
#include <algorithm>
#include <array>
#include <catch2/catch.hpp>
#include <thread>

#include "tests/conformance/jobs.hpp"
#include "tests/conformance/scenarios.hpp"
#include "tests/support/check_passed.hpp"

namespace rueda::tests {
namespace {

base::Config few_slots() {
    base::Config config = test_config();
    config.slots = 16;
    config.slots_max = 32;
    return config;
}

/// Uses 600 names with at most 32 slots; 11 names are pending at a time.
TEST_CASE("slots are taken back", "[threads]") {
    const int size = GENERATE(1, 2, 4);
    check_passed(run_clients(size, few_slots(), [](RankContext&, RuntimeClient& client) {
        for (const Scenario& scenario : naming_scenarios()) {
            const std::string name = scenario.name;
            if (name == "names: many" || name == "names: changing shapes" || name == "names: long") {
                run_scenarios(client, {&scenario, 1});
            }
        }
    }));
}

/// Uses many more new names than slots, but only a few at a time. Rueda must free slots in time, whichever rank is
/// slow.
void bursts(RankContext&, RuntimeClient& client) {
    constexpr std::size_t kPending = 14;
    for (int step = 0; step < 60; ++step) {
        std::vector<float> values(kPending);
        std::vector<PendingPointer> pending;
        for (std::size_t i = 0; i < kPending; ++i) {
            values[i] = static_cast<float>(i) + static_cast<float>(client.rank());
            const Tensor tensor{&values[i], DType::float32, {1}};
            pending.push_back(expect_value(
                client.start_allreduce(fmt::format("{} of step {}", i, step), tensor, tensor, {}), "a start"));
        }
        for (std::size_t i = 0; i < kPending; ++i) {
            expect_ok(pending[i]->wait(), "a new name");
            const int size = client.size();
            RUEDA_RANK_EQUAL(values[i], static_cast<float>(i) * static_cast<float>(size) +
                                            static_cast<float>(size * (size - 1) / 2));
        }
    }
}

/// Starts three groups: one that just fits into the free slots, one with one member more, and again one that fits. A
/// group needs one slot for each member and one for its number of members.
void largest_group(RankContext& context, RuntimeClient& client) {
    const int size = client.size();
    const std::size_t most = size > 1 ? 31 : 32;
    const auto end_of_group = [&client](std::vector<float>& values) -> Status {
        std::vector<Tensor> tensors;
        for (float& value : values) {
            value = static_cast<float>(client.rank() + 1);
            tensors.push_back({&value, DType::float32, {1}});
        }
        const auto started = client.start_group("largest", tensors, {ReduceOp::sum});
        return started.is_ok() ? started.value()->wait() : started.status();
    };
    for (int round = 0; round < 3; ++round) {
        std::vector<float> fits(most);
        expect_ok(end_of_group(fits), "a group that fits");
        for (const float value : fits) {
            RUEDA_RANK_EQUAL(value, static_cast<float>(size * (size + 1) / 2));
        }
        std::vector<float> too_many(most + 1);
        context.report("told", expect_failure(end_of_group(too_many), ErrorCode::resource_exhausted, "one too many"));
        for (const float value : too_many) {
            RUEDA_RANK_EQUAL(value, static_cast<float>(client.rank() + 1));
        }
        std::vector<float> differ(most + 1 + static_cast<std::size_t>(client.rank()));
        const std::string text = expect_failure(
            end_of_group(differ), size > 1 ? ErrorCode::mismatch : ErrorCode::resource_exhausted, "counts");
        RUEDA_RANK_EQUAL(text.find("rank 0: 32; ") != std::string::npos, size > 1);
    }
}

TEST_CASE("a group of more members than there are slots is refused on every rank, and nothing of it started",
          "[threads]") {
    const Layout layout = GENERATE("a", "aa", "aaa", "ab", "aab");
    const RanksResult result = run_clients(static_cast<int>(layout.size()), few_slots(), largest_group, {},
                                           layout.back() == 'b' ? layout : "");
    INFO(layout << '\n' << result.text());
    REQUIRE(result.passed());
    for (const RankOutcome& rank : result.ranks) {
        CHECK(rank.value("told") ==
              fmt::format("group 'largest' has {} tensors, which take 33 slots for tensor names at a time, and "
                          "RUEDA_SLOTS_MAX is 32: make several groups of it, or raise RUEDA_SLOTS_MAX; no member of "
                          "the group was started",
                          layout.size() > 1 ? 32 : 33));
    }
}

/// The groups of the ranks have different numbers of members. One rank's group finds no slots, and fails before the
/// ranks can compare the numbers of members.
void groups_that_differ(RankContext&, RuntimeClient& client) {
    const auto group_of = [&client](std::vector<float>& values) {
        std::vector<Tensor> tensors;
        for (float& value : values) {
            tensors.push_back({&value, DType::float32, {1}});
        }
        return client.start_group("g", tensors, {ReduceOp::sum});
    };
    for (int round = 0; round < 5; ++round) {
        std::vector<float> values(client.rank() == 0 ? 300 : 5, 1);
        const PendingPointer pending = expect_value(group_of(values), "the start");
        const std::string text = expect_failure(pending->wait(), ErrorCode::mismatch, "groups that differ");
        RUEDA_RANK_EQUAL(text,
                         std::string("group 'g': the ranks disagree about the number of its members: rank 0: 300; "
                                     "ranks 1, 2: 5"));
    }
    std::vector<float> alike(3, 2);
    expect_ok(expect_value(group_of(alike), "a start afterwards")->wait(), "groups that are alike");
    RUEDA_RANK_EQUAL(alike[2], 6.0F);
}

TEST_CASE("groups that differ are told so on every rank, also where slots run out", "[threads]") {
    check_passed(run_clients(3, few_slots(), groups_that_differ));
}

TEST_CASE("bursts of new names near the limit", "[threads]") {
    check_passed(run_clients(GENERATE(2, 3), few_slots(), bursts));
}

TEST_CASE("bursts of new names near the limit, in processes", "[processes]") {
    check_passed(run_clients(3, few_slots(), bursts, {.as = RanksAs::processes}));
}

/// Does the same as bursts() while other threads call operations with small tensors in a loop. Direct announcements are
/// not counted. So the slots of these tensors look idle, and Rueda takes them back. While these threads run their
/// loops, the rank must still read the log entries that free slots for other ranks.
void bursts_beside_a_loop(RankContext& context, RuntimeClient& client) {
    // The errors of two threads. One thread drives progress while the other thread announces.
    std::array<std::string, 2> failures;
    std::vector<std::jthread> loops;
    for (std::string& failure : failures) {
        loops.emplace_back([&] {
            try {
                const std::string name = fmt::format("loop {}", &failure - failures.data());
                for (int i = 0; i < 4000; ++i) {
                    float value = static_cast<float>(i % 100 + client.rank());
                    const Tensor tensor{&value, DType::float32, {1}};
                    expect_ok(client.allreduce(name, tensor, tensor, {}), "the loop");
                    const int size = client.size();
                    RUEDA_RANK_EQUAL(value, static_cast<float>(size * (i % 100) + size * (size - 1) / 2));
                }
            } catch (const std::exception& error) {
                failure = error.what();
            }
        });
    }
    bursts(context, client);
    loops.clear();
    for (const std::string& failure : failures) {
        RUEDA_RANK_EQUAL(failure, std::string());
    }
}

TEST_CASE("bursts of new names beside a loop of small allreduces", "[threads]") {
    check_passed(run_clients(GENERATE(2, 3), few_slots(), bursts_beside_a_loop));
}

TEST_CASE("bursts of new names beside a loop of small allreduces, in processes", "[processes]") {
    check_passed(run_clients(2, few_slots(), bursts_beside_a_loop, {.as = RanksAs::processes}));
}

/// Every rank starts operations with the same names, but each rank begins with a different name. More names are pending
/// than there are slots. The operation of each name must have the same result on all ranks.
void exhaust(RankContext& context, RuntimeClient& client) {
    constexpr int kNames = 80;  // this is more names than fit into a mailbox
    std::string endings;
    for (int round = 0; round < 2; ++round) {
        std::vector<float> values(static_cast<std::size_t>(kNames * client.size()), 1);
        std::vector<std::pair<int, PendingPointer>> pending;
        for (int i = 0; i < kNames * client.size(); ++i) {
            const int which = (i + kNames * client.rank()) % (kNames * client.size());
            const Tensor tensor{&values[static_cast<std::size_t>(which)], DType::float32, {1}};
            pending.emplace_back(
                which,
                expect_value(client.start_allreduce(fmt::format("name {}", which), tensor, tensor, {}), "a start"));
        }
        std::string outcome(values.size(), '?');
        for (const auto& [which, one] : pending) {
            const Status status = one->wait();
            const float value = values[static_cast<std::size_t>(which)];
            outcome[static_cast<std::size_t>(which)] = status.is_ok() ? 'c' : 'r';
            RUEDA_RANK_EQUAL(value, status.is_ok() ? static_cast<float>(client.size()) : 1.0F);
            if (!status.is_ok()) {
                RUEDA_RANK_EQUAL(
                    expect_failure(status, ErrorCode::resource_exhausted, "a name"),
                    fmt::format("tensor 'name {}': all 32 slots for tensor names are taken by pending tensors; wait "
                                "for some of them before starting new names, or raise RUEDA_SLOTS_MAX",
                                which));
            }
        }
        endings += outcome;
        float value = 1;
        const Tensor tensor{&value, DType::float32, {1}};
        expect_ok(client.allreduce("later", tensor, tensor, {}), "a later operation");
        RUEDA_RANK_EQUAL(value, static_cast<float>(client.size()));
    }
    context.report("endings", endings);
}

void check_exhausted(const RanksResult& result) {
    INFO(result.text());
    REQUIRE(result.passed());
    for (const RankOutcome& rank : result.ranks) {
        CHECK(rank.value("endings") == result.ranks.front().value("endings"));
    }
}

TEST_CASE("no slot is left", "[threads]") {
    for (int round = 0; round < 5; ++round) {
        check_exhausted(run_clients(2 + round % 3, few_slots(), exhaust));
    }
}

TEST_CASE("no slot is left, in processes", "[processes]") {
    check_exhausted(run_clients(3, few_slots(), exhaust, {.as = RanksAs::processes}));
}

/// Only rank 1 starts operations, with more new names than slots. Rueda must refuse the surplus at once, without
/// waiting for other ranks.
void alone(RankContext& context, RuntimeClient& client) {
    constexpr int kNames = 100;
    std::vector<float> values(kNames, 1);
    std::vector<PendingPointer> pending;
    if (client.rank() == 1) {
        context.wait_for_phase(0, "refused");
    }
    for (int i = 0; i < kNames; ++i) {
        const Tensor tensor{&values[static_cast<std::size_t>(i)], DType::float32, {1}};
        pending.push_back(
            expect_value(client.start_allreduce(fmt::format("name {}", i), tensor, tensor, {}), "a start"));
    }
    for (int i = 32; i < kNames; ++i) {
        expect_failure(pending[static_cast<std::size_t>(i)]->wait(), ErrorCode::resource_exhausted, "without a slot");
    }
    context.phase("refused");
    for (int i = 0; i < 32; ++i) {
        expect_ok(pending[static_cast<std::size_t>(i)]->wait(), "with a slot");
    }
    expect_ok(client.barrier(), "barrier");
}

TEST_CASE("one rank takes all slots", "[threads]") { check_passed(run_clients(2, few_slots(), alone)); }

/// The group of rank 0 finds no slot. The other ranks' groups have other numbers of members, for which slots are free.
/// These groups must fail as well. If they started, no rank could report the disagreement.
void group_without_a_slot(RankContext& context, RuntimeClient& client) {
    constexpr std::size_t kNames = 32;
    std::vector<float> values(kNames, 1);
    std::vector<PendingPointer> pending;
    const auto fill_slots = [&] {
        for (float& value : values) {
            const Tensor tensor{&value, DType::float32, {1}};
            pending.push_back(expect_value(
                client.start_allreduce(fmt::format("name {}", &value - values.data()), tensor, tensor, {}), "a name"));
        }
    };
    const auto group_of = [&client](std::vector<float>& members) {
        std::vector<Tensor> tensors;
        for (float& member : members) {
            tensors.push_back({&member, DType::float32, {1}});
        }
        return expect_value(client.start_group("g", tensors, {ReduceOp::sum}), "a group");
    };
    for (int round = 0; round < 3; ++round) {
        pending.clear();
        std::vector<float> members(client.rank() == 0 ? 3 : 2, 1);
        if (client.rank() == 0) {
            fill_slots();
        } else {
            context.wait_for_phase(0, fmt::format("refused {}", round));
            fill_slots();
            for (const PendingPointer& one : pending) {
                expect_ok(one->wait(), "with a slot");
            }
        }
        const PendingPointer group = group_of(members);
        const std::string text = expect_failure(group->wait(), ErrorCode::resource_exhausted, "the group");
        RUEDA_RANK_CHECK(text.starts_with("tensor 'g': all 32 slots for tensor names are taken by pending tensors"));
        RUEDA_RANK_EQUAL(members[1], 1.0F);
        context.phase(fmt::format("refused {}", round));
        for (const PendingPointer& one : pending) {
            expect_ok(one->wait(), "with a slot");
        }
        expect_ok(client.barrier(), "barrier");
        std::vector<float> alike(4, 2);
        expect_ok(group_of(alike)->wait(), "groups that are alike");
        RUEDA_RANK_EQUAL(alike[3], static_cast<float>(2 * client.size()));
        expect_ok(client.barrier(), "barrier");
    }
}

TEST_CASE("a group that finds no slot on one rank ends on all", "[threads]") {
    check_passed(run_clients(GENERATE(2, 3), few_slots(), group_without_a_slot));
}

/// Uses up all slots on one of several hosts, which ends the job. All ranks on all hosts must get the error, and their
/// pending operations must end.
void exhaust_a_host(RankContext& context, RuntimeClient& client) {
    const int names = client.rank() == client.size() - 1 ? 100 : 10;  // each host has 32 slots
    std::vector<float> values(100, 1);
    std::vector<PendingPointer> pending;
    std::string told;
    for (int i = 0; i < names && told.empty(); ++i) {
        const Tensor tensor{&values[static_cast<std::size_t>(i)], DType::float32, {1}};
        // Each rank uses other names, so no operation is ever called.
        auto one = client.start_allreduce(fmt::format("name {} of {}", i, client.rank()), tensor, tensor, {});
        if (one.is_ok()) {
            pending.push_back(std::move(one).value());
        } else {
            told = one.status().message();
        }
    }
    for (const PendingPointer& one : pending) {
        told = expect_failure(one->wait(), ErrorCode::resource_exhausted, "a pending name");
    }
    context.report("told", told);
    context.report("later", expect_failure(client.barrier(), ErrorCode::resource_exhausted, "a later operation"));
}

TEST_CASE("no slot is left on one of several hosts", "[threads]") {
    const Layout layout = GENERATE("ab", "aab", "abb", "abc");
    const int size = static_cast<int>(layout.size());
    const RanksResult result = run_clients(size, few_slots(), exhaust_a_host, {}, layout);
    INFO(layout << '\n' << result.text());
    REQUIRE(result.passed());
    const std::string text =
        "all 32 slots for tensor names of its host are taken by pending tensors, and RUEDA_SLOTS_MAX is 32; the job "
        "ends, because other hosts may have a slot for this name: start fewer operations at a time, or set "
        "RUEDA_SLOTS_MAX to more, as ruedarun -x RUEDA_SLOTS_MAX=VALUE does";
    for (const RankOutcome& rank : result.ranks) {
        CHECK(rank.value("told").find("tensor 'name ") != std::string::npos);
        CHECK(rank.value("told").find(text) != std::string::npos);
        CHECK(rank.value("later").find(text) != std::string::npos);
    }
}

}  // namespace
}  // namespace rueda::tests
