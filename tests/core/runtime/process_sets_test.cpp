// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The Rueda authors
#include <atomic>
#include <catch2/catch.hpp>
#include <thread>

#include "tests/conformance/jobs.hpp"
#include "tests/conformance/scenarios.hpp"
#include "tests/conformance/values.hpp"
#include "tests/support/check_passed.hpp"

namespace rueda::tests {
namespace {

using Sets = std::vector<std::vector<int>>;

/// Returns the sum of `mine` over the members of the set.
double sum(Client& set, const std::string& name, double mine) {
    double value = mine;
    const Tensor tensor{&value, DType::float64, {1}};
    expect_ok(set.allreduce(name, tensor, tensor, {ReduceOp::sum}), name);
    return value;
}

std::unique_ptr<RuntimeClient> add(RuntimeClient& world, const std::vector<int>& ranks) {
    auto added = world.add_set(ranks);
    added.status().throw_if_failed();
    return std::move(added).value();
}

void check(int size, const std::function<void(RankContext&, RuntimeClient&)>& body, const Layout& layout = {}) {
    check_passed(run_clients(size, test_config(), body, {}, layout));
}

TEST_CASE("overlapping sets reduce each over its own members", "[threads]") {
    const Layout layout = GENERATE("", "aabb", "abab");
    check(
        4,
        [](RankContext&, RuntimeClient& world) {
            const Sets ranks{{0, 1}, {1, 2, 3}, {3, 0}, {2}};
            std::vector<std::unique_ptr<RuntimeClient>> sets;
            for (const std::vector<int>& of : ranks) {
                sets.push_back(add(world, of));
            }
            for (int step = 0; step < 20; ++step) {
                for (std::size_t i = 0; i < sets.size(); ++i) {
                    double expected = 0;
                    for (const int rank : ranks[i]) {
                        expected += rank * 100 + step;
                    }
                    if (sets[i] != nullptr) {
                        RUEDA_RANK_EQUAL(sum(*sets[i], "x", world.rank() * 100 + step), expected);
                        RUEDA_RANK_EQUAL(sets[i]->size(), static_cast<int>(ranks[i].size()));
                    }
                }
                RUEDA_RANK_EQUAL(sum(world, "x", world.rank() + step), 6.0 + 4 * step);
            }
        },
        layout);
}

TEST_CASE("numbers are the same on all ranks, and members are in the order of their ranks", "[threads]") {
    check(3, [](RankContext&, RuntimeClient& world) {
        core::ProcessSets& sets = world.runtime().process_sets();
        RUEDA_RANK_EQUAL(expect_value(sets.add(std::array{2, 0}), "a set"), 1);
        RUEDA_RANK_EQUAL(expect_value(sets.identity(1), "its ranks").ranks == (std::vector{0, 2}), true);
        RUEDA_RANK_EQUAL(sets.find(1).is_ok(), world.rank() != 1);
        if (world.rank() == 1) {
            RUEDA_RANK_EQUAL(expect_failure(sets.find(1).status(), ErrorCode::invalid_argument, "find"),
                             std::string("rank 1 is not a member of process set 1 (ranks 0, 2)"));
        }
        RUEDA_RANK_EQUAL(expect_value(sets.add(std::array{1}), "a second set"), 2);
        expect_ok(sets.remove(1), "remove");
        RUEDA_RANK_EQUAL(sets.find(1).is_ok(), false);
        // A new set gets a new number, even if it has the ranks of a removed set.
        RUEDA_RANK_EQUAL(expect_value(sets.add(std::array{0, 2}), "the same ranks again"), 3);
        RUEDA_RANK_EQUAL(sets.ids() == (std::vector{0, 2, 3}), true);
    });
}

TEST_CASE("an invalid list of ranks is refused on all ranks alike, and the next set works", "[threads]") {
    check(3, [](RankContext&, RuntimeClient& world) {
        core::ProcessSets& sets = world.runtime().process_sets();
        const auto refused = [&](std::vector<int> ranks, ErrorCode code) {
            return expect_failure(sets.add(ranks).status(), code, "a set that cannot be");
        };
        RUEDA_RANK_EQUAL(refused({}, ErrorCode::invalid_argument),
                         std::string("add_process_set needs at least one rank"));
        RUEDA_RANK_EQUAL(refused({0, 3}, ErrorCode::invalid_argument),
                         std::string("add_process_set: there is no rank 3; expected 0 to 2"));
        RUEDA_RANK_EQUAL(refused({1, 0, 1}, ErrorCode::invalid_argument),
                         std::string("add_process_set names rank 1 twice"));
        RUEDA_RANK_EQUAL(refused({2, 1, 0}, ErrorCode::invalid_argument),
                         std::string("add_process_set: process set 0 has the same ranks already (ranks 0-2)"));
        RUEDA_RANK_EQUAL(refused(world.rank() == 2 ? std::vector{0} : std::vector{0, 1}, ErrorCode::mismatch),
                         std::string("the ranks ask for different changes of the process sets: rank 2: "
                                     "add_process_set([0]); ranks 0, 1: add_process_set([0, 1])"));
        RUEDA_RANK_EQUAL(expect_failure(sets.remove(0), ErrorCode::invalid_argument, "the world"),
                         std::string("process set 0 is the world, which cannot be removed"));
        RUEDA_RANK_EQUAL(expect_failure(sets.remove(7), ErrorCode::invalid_argument, "an unknown set"),
                         std::string("there is no process set 7 to remove"));
        const Status mixed = world.rank() == 0 ? sets.remove(1) : sets.add(std::array{0, 1}).status();
        RUEDA_RANK_EQUAL(expect_failure(mixed, ErrorCode::mismatch, "add and remove"),
                         std::string("the ranks ask for different changes of the process sets: ranks 1, 2: "
                                     "add_process_set([0, 1]); rank 0: remove_process_set(1)"));
        const auto set = add(world, {0, 1});
        if (set != nullptr) {
            RUEDA_RANK_EQUAL(sum(*set, "x", world.rank() + 1), 3.0);
        }
    });
}

TEST_CASE("members make sets alone, with numbers that no rank has twice", "[threads]") {
    const Layout layout = GENERATE("", "aabb", "abab");
    check(
        4,
        [](RankContext&, RuntimeClient& world) {
            const int rank = world.rank();
            const auto among = [&](const std::vector<int>& ranks) {
                return expect_value(world.add_set_among(ranks), "members alone");
            };
            // First, two disjoint sets are created at the same time. Then sets of two neighbouring ranks are created
            // one after another, and the other ranks do not know about them.
            const auto pair = among(rank < 2 ? std::vector{1, 0} : std::vector{2, 3});
            RUEDA_RANK_EQUAL(sum(*pair, "x", rank + 1), rank < 2 ? 3.0 : 7.0);
            std::vector<std::unique_ptr<RuntimeClient>> links;
            for (int first = 0; first < 3; ++first) {
                if (rank == first || rank == first + 1) {
                    links.push_back(among({first, first + 1}));
                    RUEDA_RANK_EQUAL(sum(*links.back(), "x", rank), 2.0 * first + 1);
                }
            }
            // Two sets have the same ranks. Unnamed operations must match within each set.
            const std::array twins{among({0, 1, 2, 3}), among({3, 2, 1, 0})};
            std::array<double, 2> values{1, 10};
            std::array<PendingPointer, 2> pending;
            for (const std::size_t index :
                 rank % 2 == 0 ? std::array<std::size_t, 2>{0, 1} : std::array<std::size_t, 2>{1, 0}) {
                const Tensor tensor{&values[index], DType::float64, {1}};
                pending[index] =
                    expect_value(twins[index]->start_allreduce("", tensor, tensor, {ReduceOp::sum}), "twin");
            }
            expect_ok(pending[0]->wait(), "first twin");
            expect_ok(pending[1]->wait(), "second twin");
            RUEDA_RANK_EQUAL(values[0] + values[1], 44.0);
            // Some ranks already know more sets than others, so a set of the whole job must get a number that is new on
            // every rank.
            core::ProcessSets& sets = world.runtime().process_sets();
            const std::vector<std::int32_t> before = sets.ids();
            const std::int32_t added = expect_value(sets.add(std::array{0, 3}), "of the job");
            RUEDA_RANK_EQUAL(added > before.back(), true);
            RUEDA_RANK_EQUAL(sum(world, "all", 1), 4.0);
        },
        layout);
}

TEST_CASE("a rank that leaves a set of members does not wait, and the other members learn of it", "[threads]") {
    const Layout layout = GENERATE("", "abc");
    check(
        3,
        [](RankContext&, RuntimeClient& world) {
            core::ProcessSets& sets = world.runtime().process_sets();
            const std::int32_t id = expect_value(sets.add_among(std::array{0, 1, 2}), "a set");
            const auto stays = expect_value(world.add_set_among({0, 1, 2}), "its twin");
            if (world.rank() == 1) {
                expect_ok(sets.leave(id), "leave");
                RUEDA_RANK_EQUAL(sets.find(id).is_ok(), false);
            } else {
                RUEDA_RANK_EQUAL(expect_value(sets.find(id), "the set")->set_size(), 3);
                expect_ok(sets.leave(id), "leave");
            }
            RUEDA_RANK_EQUAL(sum(*stays, "x", 1), 3.0);
            RUEDA_RANK_EQUAL(
                expect_failure(sets.leave(id), ErrorCode::invalid_argument, "twice"),
                fmt::format("leave_process_set: process set {} was not made by add_process_set_among on this rank",
                            id));
            // A set is released when all its members have left it, so the number of sets does not grow.
            for (int turn = 0; turn < 20; ++turn) {
                const std::int32_t next = expect_value(sets.add_among(std::array{0, 1, 2}), "another one");
                expect_ok(sets.leave(next), "leave");
            }
            RUEDA_RANK_EQUAL(sets.ids().size(), std::size_t{2});
        },
        layout);
}

TEST_CASE("a broadcast's root and the ranks in an error are those of the job", "[threads]") {
    const Layout layout = GENERATE("", "aabb");
    check(
        4,
        [](RankContext&, RuntimeClient& world) {
            const auto set = add(world, {1, 3});
            if (set == nullptr) {
                return;
            }
            std::array<float, 3> values{};
            const bool first = world.rank() == 1;
            const Tensor tensor{values.data(), DType::float32, {first ? 2 : 3}};
            RUEDA_RANK_EQUAL(
                expect_failure(set->allreduce("w", tensor, tensor, {}), ErrorCode::mismatch, "shapes differ"),
                std::string("tensor 'w': the ranks disagree about the shape: rank 1: [2]; rank 3: [3]"));
            const Tensor pair{values.data(), DType::float32, {2}};
            RUEDA_RANK_EQUAL(expect_failure(set->broadcast("b", pair, first ? 0 : 1), ErrorCode::mismatch, "roots"),
                             std::string("tensor 'b': the ranks disagree about the root rank: rank 1: 1; rank 3: 3"));
            values = {static_cast<float>(world.rank()), 0, 0};
            expect_ok(set->broadcast("b", pair, 1), "from rank 3");
            RUEDA_RANK_EQUAL(values[0], 3.0F);
            RUEDA_RANK_EQUAL(expect_failure(set->broadcast("c", pair, 5), ErrorCode::invalid_argument, "no member"),
                             std::string("tensor 'c': the root rank is 5; expected 0 to 3"));
        },
        layout);
}

TEST_CASE("a set whose others do not come delays no other set", "[threads]") {
    check(3, [](RankContext&, RuntimeClient& world) {
        const auto late = add(world, {0, 1});
        const auto prompt = add(world, {0, 2});
        PendingPointer pending;
        std::vector<double> values{1, 2};
        const Tensor tensor{values.data(), DType::float64, {2}};
        if (world.rank() == 0) {
            pending = expect_value(late->start_allreduce("late", tensor, tensor, {ReduceOp::sum}), "late");
        }
        if (prompt != nullptr) {
            for (int step = 0; step < 50; ++step) {
                RUEDA_RANK_EQUAL(sum(*prompt, "prompt", 1), 2.0);
            }
        }
        RUEDA_RANK_EQUAL(pending != nullptr && pending->ready(), false);
        RUEDA_RANK_EQUAL(sum(world, "all", 1), 3.0);
        if (world.rank() == 1) {
            pending = expect_value(late->start_allreduce("late", tensor, tensor, {ReduceOp::sum}), "late");
        }
        if (pending != nullptr) {
            expect_ok(pending->wait(), "late");
            RUEDA_RANK_EQUAL(values[1], 4.0);
        }
    });
}

TEST_CASE("removing a set fails what is pending in it, and nothing else", "[threads]") {
    const Layout layout = GENERATE("", "ab");
    check(
        2,
        [](RankContext&, RuntimeClient& world) {
            auto set = add(world, {1});
            const auto both = expect_value(world.runtime().process_sets().add(std::array{0}), "another set");
            expect_ok(world.runtime().process_sets().remove(both), "remove");
            if (set != nullptr) {
                RUEDA_RANK_EQUAL(sum(*set, "x", 5), 5.0);
            }
            expect_ok(world.runtime().process_sets().remove(1), "remove");
            if (set != nullptr) {
                double value = 0;
                const Tensor tensor{&value, DType::float64, {1}};
                RUEDA_RANK_EQUAL(expect_failure(set->allreduce("x", tensor, tensor, {}), ErrorCode::invalid_argument,
                                                "after its removal"),
                                 std::string("tensor 'x': process set 1 (rank 1) has been removed"));
            }
            RUEDA_RANK_EQUAL(sum(world, "x", 1), 2.0);
        },
        layout);
    check(3, [](RankContext&, RuntimeClient& world) {
        auto set = add(world, {0, 2});
        PendingPointer pending;
        double value = 1;
        const Tensor tensor{&value, DType::float64, {1}};
        if (world.rank() == 0) {
            pending = expect_value(set->start_allreduce("never", tensor, tensor, {}), "never");
        }
        expect_ok(world.runtime().process_sets().remove(1), "remove");
        if (pending != nullptr) {
            RUEDA_RANK_EQUAL(expect_failure(pending->wait(), ErrorCode::aborted, "pending at the removal")
                                 .find("tensor 'never': process set 1 (ranks 0, 2)"),
                             std::size_t{0});
        }
        RUEDA_RANK_EQUAL(sum(world, "x", 1), 3.0);
    });
}

TEST_CASE("a set is added while another thread of the rank waits for an operation", "[threads]") {
    check(2, [](RankContext&, RuntimeClient& world) {
        double value = 1;
        const Tensor tensor{&value, DType::float64, {1}};
        std::thread waiter;
        if (world.rank() == 0) {
            waiter = std::thread([&] { expect_ok(world.allreduce("late", tensor, tensor, {ReduceOp::sum}), "late"); });
            std::this_thread::sleep_for(std::chrono::milliseconds(20));
        }
        const auto set = add(world, {0});
        if (set != nullptr) {
            RUEDA_RANK_EQUAL(sum(*set, "own", 7), 7.0);
        }
        if (world.rank() == 1) {
            expect_ok(world.allreduce("late", tensor, tensor, {ReduceOp::sum}), "late");
        } else {
            waiter.join();
        }
        RUEDA_RANK_EQUAL(value, 2.0);
    });
}

TEST_CASE("resident tensors of the job are reduced in place in a set", "[threads]") {
    check(3, [](RankContext&, RuntimeClient& world) {
        const auto set = add(world, {0, 2});
        constexpr std::size_t kCount = 100'000;
        auto memory = world.allocate(kCount * sizeof(float));
        memory.status().throw_if_failed();
        auto* values = static_cast<float*>(memory.value());
        std::fill_n(values, kCount, static_cast<float>(world.rank() + 1));
        if (set != nullptr) {
            const Tensor tensor{values, DType::float32, {static_cast<std::int64_t>(kCount)}};
            for (float expected = 4; expected < 100; expected *= 2) {
                expect_ok(set->allreduce("resident", tensor, tensor, {ReduceOp::sum}), "resident");
                RUEDA_RANK_EQUAL(values[0], expected);
                RUEDA_RANK_EQUAL(values[kCount - 1], expected);
            }
        } else {
            RUEDA_RANK_EQUAL(values[kCount / 2], 2.0F);
        }
        expect_ok(world.barrier(), "barrier");
        expect_ok(world.deallocate(values), "deallocate");
    });
}

TEST_CASE("sets come and go while another thread of the rank works", "[threads]") {
    check(2, [](RankContext&, RuntimeClient& world) {
        std::thread worker([&] {
            for (int step = 0; step < 300; ++step) {
                RUEDA_RANK_EQUAL(sum(world, "work", step), 2.0 * step);
            }
        });
        for (int round = 0; round < 20; ++round) {
            const auto set = add(world, {round % 2});
            if (set != nullptr) {
                RUEDA_RANK_EQUAL(sum(*set, "own", round), static_cast<double>(round));
            }
            expect_ok(world.runtime().process_sets().remove(round + 1), "remove");
        }
        worker.join();
    });
}

TEST_CASE("a shutdown ends a set-up that waits for another rank, and is not held up by it", "[threads]") {
    check(2, [](RankContext& context, RuntimeClient& world) {
        if (world.rank() == 0) {
            std::thread adding([&] {
                const Status status = world.runtime().process_sets().add(std::array{0}).status();
                RUEDA_RANK_CHECK(!status.is_ok());
            });
            context.wait_for_phase(1, "waiting");
            std::this_thread::sleep_for(std::chrono::milliseconds(20));  // 20 ms are enough for the operation to begin
            expect_ok(world.shutdown(), "shutdown");
            adding.join();
        } else {
            double value = 0;
            const Tensor tensor{&value, DType::float64, {1}};
            const auto pending = expect_value(world.start_allreduce("never", tensor, tensor, {}), "start");
            context.phase("waiting");
            RUEDA_RANK_EQUAL(expect_failure(pending->wait(), ErrorCode::aborted, "never"),
                             std::string("tensor 'never': rank 0 has shut down, so no operation is possible any more; "
                                         "a rank with fewer batches has to call join() before it shuts down"));
        }
    });
}

TEST_CASE("a rank that shuts down fails what its sets have pending", "[threads]") {
    check(3, [](RankContext&, RuntimeClient& world) {
        const auto set = add(world, {0, 1});
        if (world.rank() == 0) {
            double value = 1;
            const Tensor tensor{&value, DType::float64, {1}};
            RUEDA_RANK_EQUAL(expect_failure(set->allreduce("x", tensor, tensor, {}), ErrorCode::aborted, "x"),
                             std::string("tensor 'x': process set 1 (ranks 0, 1): rank 1 has removed it, or has shut "
                                         "down"));
        }
    });
}

}  // namespace
}  // namespace rueda::tests
