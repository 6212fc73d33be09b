// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The Rueda authors
// Tests jobs that contain only some of the launched ranks. Here the ranks find each other through a socket.
// some_ranks_program.cpp tests such jobs over MPI.
#include <catch2/catch.hpp>
#include <csignal>
#include <cstdlib>
#include <string>
#include <vector>

#include "rueda/rueda.hpp"
#include "tests/conformance/public_ranks.hpp"
#include "tests/support/check_passed.hpp"

namespace rueda::tests {
namespace {

using Ranks = std::vector<std::int32_t>;

/// Runs an allreduce in the job. Each rank contributes its number in the launch, plus one. Checks that the result is
/// the sum for these members.
void check_sum(int launched, const Ranks& members) {
    float sum = 0;
    for (const std::int32_t member : members) {
        sum += static_cast<float>(member + 1);
    }
    std::vector<float> values(5000, static_cast<float>(launched + 1));
    rueda::allreduce("sum", std::span(values), {.op = ReduceOp::sum});
    RUEDA_RANK_EQUAL(values.front(), sum);
    RUEDA_RANK_EQUAL(values.back(), sum);
}

void check_numbers(int position, int size) {
    RUEDA_RANK_EQUAL(rueda::rank(), position);
    RUEDA_RANK_EQUAL(rueda::size(), size);
    RUEDA_RANK_EQUAL(rueda::local_rank(), position);
    RUEDA_RANK_EQUAL(rueda::local_size(), size);
    RUEDA_RANK_EQUAL(rueda::cross_rank(), 0);
    RUEDA_RANK_EQUAL(rueda::cross_size(), 1);
}

/// Six ranks form three jobs at the same time, without rank 5. Then they form other jobs, and at last one job of all
/// ranks.
TEST_CASE("disjoint parts of a launch are jobs at the same time", "[processes]") {
    check_passed(run_public_ranks(6, [](RankContext& context) {
        const int launched = context.rank();
        for (int round = 0; round < 3; ++round) {
            if (launched == 5) {
                break;  // rank 5 takes part in none of these jobs
            }
            const bool is_odd = launched % 2 != 0;
            const Ranks members = is_odd ? Ranks{3, 1} : Ranks{4, 0, 2};
            rueda::init(std::span(members));
            check_numbers(launched / 2, is_odd ? 2 : 3);
            rueda::init(std::span(members));  // init() is called twice, and the second call has no effect
            check_sum(launched, members);
            if (!is_odd) {
                // 0 and 2 are ranks of this job, not of the launch
                const ProcessSet pair = rueda::add_process_set({0, 2});
                if (pair.included()) {
                    auto value = static_cast<float>(launched);
                    rueda::allreduce("pair", std::span(&value, 1), {.op = ReduceOp::sum, .process_set = pair});
                    RUEDA_RANK_EQUAL(value, 4.0F);
                }
            }
            rueda::shutdown();
        }
        rueda::init();
        RUEDA_RANK_EQUAL(rueda::rank(), launched);
        RUEDA_RANK_EQUAL(rueda::size(), 6);
        check_sum(launched, {0, 1, 2, 3, 4, 5});
        rueda::shutdown();
    }));
}

TEST_CASE("a list of all ranks, and of one", "[processes]") {
    check_passed(run_public_ranks(3, [](RankContext& context) {
        // init() without a list, and init() with a list of all ranks, ask for the same job
        context.rank() == 1 ? rueda::init() : rueda::init({2, 0, 1});
        check_numbers(context.rank(), 3);
        check_sum(context.rank(), {0, 1, 2});
        rueda::shutdown();
        rueda::init({context.rank()});
        check_numbers(0, 1);
        check_sum(context.rank(), {context.rank()});
        rueda::shutdown();
    }));
}

std::string refused(const Ranks& ranks) {
    try {
        rueda::init(std::span(ranks));
        return "accepted";
    } catch (const InvalidArgument& error) {
        return error.what();
    } catch (const Mismatch& error) {
        return std::string("Mismatch: ") + error.what();
    } catch (const Error& error) {
        return std::string("another error: ") + error.what();
    }
}

TEST_CASE("lists that cannot be are refused, and the next one works", "[processes]") {
    check_passed(run_public_ranks(2, [](RankContext& context) {
        const std::string own = std::to_string(context.rank());
        RUEDA_RANK_EQUAL(refused({}), std::string("init: the list of ranks is empty; expected some of 0 to 1"));
        RUEDA_RANK_EQUAL(refused({0, 1, 2}),
                         std::string("init: there is no rank 2; 2 processes were launched, 0 to 1"));
        RUEDA_RANK_EQUAL(refused({0, -1}), std::string("init: there is no rank -1; 2 processes were launched, 0 to 1"));
        RUEDA_RANK_EQUAL(refused({0, 1, 0}), std::string("init: rank 0 is in the list twice; expected each once"));
        RUEDA_RANK_EQUAL(refused({1 - context.rank()}),
                         "init: this process is rank " + own + " of those that were launched, and the list is " +
                             std::to_string(1 - context.rank()) + ": call init only in the members of the list");
        RUEDA_RANK_CHECK(!rueda::initialized());
        rueda::init({0, 1});
        RUEDA_RANK_EQUAL(refused({context.rank()}),
                         std::string("init: this process is in a job already, of the ranks 0, 1 of those that were "
                                     "launched: call rueda::shutdown() before it joins another one"));
        check_sum(context.rank(), {0, 1});
        rueda::shutdown();
        const int nothing = 0;
        const std::string communicator = [&] {
            try {
                rueda::init_communicator(nothing);
                return std::string("accepted");
            } catch (const Unsupported& error) {
                return std::string(error.what());
            }
        }();
        RUEDA_RANK_CHECK(communicator.find("this process has not loaded MPI") != std::string::npos);
    }));
}

/// Ranks 0 and 3 call init with different lists, while ranks 1 and 2 form a job of their own.
void rendezvous_with(RankContext& context, const Ranks& list_of_0, const Ranks& list_of_3, const std::string& told_to_0,
                     const std::string& told_to_3) {
    ::setenv("RUEDA_START_TIMEOUT", "1", 1);
    if (context.rank() == 1 || context.rank() == 2) {
        RUEDA_RANK_EQUAL(refused({1, 2}), std::string("accepted"));
        check_sum(context.rank(), {1, 2});
        rueda::shutdown();
        return;
    }
    const std::string text = refused(context.rank() == 0 ? list_of_0 : list_of_3);
    const std::string& expected = context.rank() == 0 ? told_to_0 : told_to_3;
    if (text.find(expected) == std::string::npos) {
        RUEDA_RANK_EQUAL(text, expected);
    }
}

TEST_CASE("ranks that meet with different lists are told whose", "[processes]") {
    check_passed(run_public_ranks(4, [](RankContext& context) {
        const std::string text =
            "Mismatch: init: the ranks of the new job were given different lists: rank 0: 0, 2; rank 3: 0, 3; give the "
            "same list to all of its members";
        rendezvous_with(context, {0, 2}, {0, 3}, text, text);
    }));
    check_passed(run_public_ranks(4, [](RankContext& context) {
        rendezvous_with(context, {0, 2}, {0, 2, 3}, "init as a job of the ranks 0, 2: rank 1 did not come",
                        "init as a job of the ranks 0, 2, 3: rank 2 was started for a job of size 3, expected 2");
    }));
}

/// Whatever happens to a rank must not affect other jobs of the launch.
TEST_CASE("a death ends its own job and no other", "[processes]") {
    const RanksResult result = run_public_ranks(5, [](RankContext& context) {
        const int launched = context.rank();
        const Ranks members = launched < 3 ? Ranks{0, 1, 2} : Ranks{3, 4};
        rueda::init(std::span(members));
        check_sum(launched, members);
        context.phase("met");
        if (launched == 1) {
            context.wait_for_phase(3, "met");
            context.wait_for_phase(4, "met");
            context.kill_rank(1, SIGKILL);
        }
        if (launched < 3) {
            float value = 1;
            std::string text;
            try {
                rueda::allreduce("never", std::span(&value, 1));
            } catch (const Aborted& error) {
                text = error.what();
            }
            RUEDA_RANK_CHECK(text.find("rank 1") != std::string::npos);
            context.phase("told");
        } else {
            context.wait_for_phase(0, "told");
            context.wait_for_phase(2, "told");
            check_sum(launched, members);
        }
        rueda::shutdown();
    });
    INFO(result.text());
    for (const int rank : {0, 2, 3, 4}) {
        CHECK(result.ranks[static_cast<std::size_t>(rank)].end == RankEnd::returned);
    }
    CHECK(result.leaks.empty());
}

}  // namespace
}  // namespace rueda::tests
