// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The Rueda authors
// Tests process sets that init() creates, and the numbers of process sets in consecutive jobs.
#include "core/setup/first_sets.hpp"

#include <algorithm>
#include <catch2/catch.hpp>
#include <functional>
#include <limits>
#include <span>
#include <string>
#include <vector>

#include "rueda/rueda.hpp"
#include "tests/conformance/public_ranks.hpp"
#include "tests/support/check_passed.hpp"

namespace rueda::tests {
namespace {

using Ranks = std::vector<std::int32_t>;

float sum_in(ProcessSet set) {
    auto value = static_cast<float>(rueda::rank() + 1);
    rueda::allreduce("sum", std::span(&value, 1), {.op = ReduceOp::sum, .process_set = set});
    return value;
}

bool is_new(const std::vector<std::int32_t>& used, ProcessSet set) {
    return std::find(used.begin(), used.end(), set.id) == used.end();
}

/// Creates process sets with add_process_set() and add_process_set_among(), in four consecutive jobs. Each job must
/// refuse the sets of the previous job.
void use_jobs(RankContext& context) {
    std::vector<std::int32_t> used;
    std::vector<ProcessSet> old;
    for (int job = 0; job < 4; ++job) {
        rueda::init();
        for (const ProcessSet set : old) {
            RUEDA_RANK_EQUAL(refused<InvalidArgument>([&] { static_cast<void>(sum_in(set)); }),
                             "there is no process set " + std::to_string(set.id) +
                                 ": it was removed, or is of an earlier job, or add_process_set has not returned it");
            RUEDA_RANK_CHECK(refused<InvalidArgument>([&] { static_cast<void>(set.ranks()); }) != "accepted");
            RUEDA_RANK_CHECK(refused<InvalidArgument>([&] { rueda::leave_process_set(set); }) != "accepted");
            const TensorSlot slot("kept", set);  // the slot belongs to a set of the previous job
            float value = 1;
            RUEDA_RANK_CHECK(refused<InvalidArgument>([&] {
                                 rueda::allreduce(slot, std::span(&value, 1), {.process_set = set});
                             }) != "accepted");
        }
        // In each job, the set contains another pair of ranks than in the previous job.
        const ProcessSet pair = rueda::add_process_set({job % 3, (job + 1) % 3});
        RUEDA_RANK_CHECK(is_new(used, pair));
        if (pair.included()) {
            RUEDA_RANK_EQUAL(sum_in(pair), static_cast<float>(job % 3 + (job + 1) % 3 + 2));
        }
        old = {pair};
        if (context.rank() < 2) {  // only ranks 0 and 1 create and know this set
            const ProcessSet alone = rueda::add_process_set_among({0, 1});
            RUEDA_RANK_CHECK(is_new(used, alone));
            RUEDA_RANK_EQUAL(sum_in(alone), 3.0F);
            old.push_back(alone);
        }
        for (const ProcessSet set : old) {
            used.push_back(set.id);
        }
        rueda::shutdown();
    }
}

TEST_CASE("no process set has a number that a set of an earlier job had", "[processes]") {
    check_passed(run_public_ranks(3, use_jobs));
}

/// Ranks 0 and 1 were in a smaller job before, and therefore know more sets than ranks 2 and 3.
TEST_CASE("numbers of process sets are new to all ranks of a job, whatever jobs those were in", "[processes]") {
    check_passed(run_public_ranks(4, [](RankContext& context) {
        std::int32_t last = 0;
        if (context.rank() < 2) {
            rueda::init({0, 1});
            for (int i = 0; i < 5; ++i) {
                last = rueda::add_process_set({i % 2}).id;
                rueda::remove_process_set({last});
            }
            rueda::shutdown();
        }
        rueda::init();
        const ProcessSet set = rueda::add_process_set({1, 3});
        RUEDA_RANK_EQUAL(set.id, 6);
        RUEDA_RANK_CHECK(set.id > last);
        if (set.included()) {
            RUEDA_RANK_EQUAL(sum_in(set), 6.0F);
        }
        rueda::shutdown();
    }));
}

TEST_CASE("process sets from the start, in C++", "[processes]") {
    check_passed(run_public_ranks(4, [](RankContext& context) {
        for (int job = 0; job < 2; ++job) {
            const std::vector<ProcessSet> sets = rueda::init_with({.process_sets = {{2, 0}, {1, 3}, {0, 1, 2}}});
            RUEDA_RANK_EQUAL(sets.size(), std::size_t{3});
            RUEDA_RANK_CHECK(sets[0].ranks() == Ranks({0, 2}));
            RUEDA_RANK_CHECK(sets[1].ranks() == Ranks({1, 3}));
            RUEDA_RANK_EQUAL(sets[2].included(), context.rank() != 3);
            const ProcessSet mine = sets[context.rank() % 2 == 0 ? 0 : 1];
            RUEDA_RANK_EQUAL(sum_in(mine), context.rank() % 2 == 0 ? 4.0F : 6.0F);
            // A second init() finds the sets of the first init(), in any order. The second init() fails if one of its
            // sets does not exist.
            const std::vector<ProcessSet> found = rueda::init_with({.process_sets = {{2, 1, 0}, {0, 2}}});
            RUEDA_RANK_EQUAL(found[0].id, sets[2].id);
            RUEDA_RANK_EQUAL(found[1].id, sets[0].id);
            RUEDA_RANK_EQUAL(
                refused<InvalidArgument>([] {
                    rueda::init_with({.process_sets = {{0, 3}}});
                }),
                std::string("init: this job has begun already, without a process set of ranks 0, 3: make it with "
                            "add_process_set"));
            RUEDA_RANK_CHECK(rueda::init_with({}).empty());
            rueda::shutdown();
        }
        // If a job consists of a part of the launched ranks, the members of a set are given as ranks of this job.
        if (context.rank() != 0) {
            const std::vector<ProcessSet> sets = rueda::init_with({.ranks = {3, 1, 2}, .process_sets = {{0, 2}}});
            RUEDA_RANK_EQUAL(sets[0].included(), context.rank() != 2);
            rueda::shutdown();
        }
    }));
}

TEST_CASE("ranks that give different process sets learn which rank gives which, and the next init works",
          "[processes]") {
    check_passed(run_public_ranks(3, [](RankContext& context) {
        const RankLists mine = context.rank() == 1   ? RankLists{{1, 0}, {2}}
                               : context.rank() == 2 ? RankLists{}
                                                     : RankLists{{0, 1}};
        RUEDA_RANK_EQUAL(refused<Mismatch>([&] { rueda::init_with({.process_sets = mine}); }),
                         std::string("init: the ranks give different process sets: rank 0: [0, 1]; rank 1: [0, 1], "
                                     "[2]; rank 2: none; expected the same on all"));
        RUEDA_RANK_CHECK(!rueda::initialized());
        // The order of the sets in the list must be the same on all ranks. The order of the ranks within a set does not
        // matter.
        const RankLists turned = context.rank() == 1 ? RankLists{{2}, {0, 1}} : RankLists{{0, 1}, {2}};
        RUEDA_RANK_CHECK(refused<Mismatch>([&] { rueda::init_with({.process_sets = turned}); }).starts_with("init: "));
        // Rank 0 calls init without sets, and the other ranks with sets.
        RUEDA_RANK_EQUAL(refused<Mismatch>([&] {
                             context.rank() == 0 ? rueda::init()
                                                 : static_cast<void>(rueda::init_with({.process_sets = {{0}}}));
                         }),
                         std::string("init: the ranks give different process sets: rank 0: none; ranks 1, 2: [0]; "
                                     "expected the same on all"));
        for (const RankLists& wrong : {RankLists{{0, 3}}, RankLists{{0, 0}}, RankLists{{}}, RankLists{{1}, {1}}}) {
            RUEDA_RANK_CHECK(refused<InvalidArgument>([&] { rueda::init_with({.process_sets = wrong}); }) !=
                             "accepted");
            RUEDA_RANK_CHECK(!rueda::initialized());
        }
        const auto sets = rueda::init_with({.process_sets = {{0, 2}}});
        if (sets[0].included()) {
            RUEDA_RANK_EQUAL(sum_in(sets[0]), 4.0F);
        }
        rueda::shutdown();
    }));
}

/// A control plane of rank 0 in a job of two ranks. The test chooses the bytes that rank 1 sends.
class Scripted final : public collectives::ControlPlane {
public:
    explicit Scripted(collectives::Bytes others) : others_(std::move(others)) {}
    [[nodiscard]] int rank() const override { return 0; }
    [[nodiscard]] int size() const override { return 2; }
    [[nodiscard]] std::string description() const override { return "scripted"; }
    Result<std::vector<collectives::Bytes>> allgather(std::span<const std::byte> mine) override {
        return std::vector<collectives::Bytes>{{mine.begin(), mine.end()}, others_};
    }
    Result<collectives::Bytes> broadcast(std::span<const std::byte> mine, int /*root*/) override {
        return collectives::Bytes(mine.begin(), mine.end());
    }
    Status barrier() override { return {}; }
    void close(bool /*after_failure*/) override {}

private:
    collectives::Bytes others_;
};

Result<std::int32_t> agree_with(const std::vector<std::int32_t>& others, std::size_t bytes_less = 0) {
    const auto bytes = std::as_bytes(std::span(others));
    Scripted plane({bytes.begin(), bytes.end() - static_cast<std::ptrdiff_t>(bytes_less)});
    return core::agree_on_first_sets(plane, {.next_id = 5, .ranks = {{1, 0}}});
}

TEST_CASE("announcements of other ranks about their process sets are checked", "[threads]") {
    CHECK(agree_with({7, 2, 0, 1}).value() == 7);
    CHECK(agree_with({3, 2, 0, 1}).value() == 5);
    for (const std::vector<std::int32_t>& wrong : {std::vector<std::int32_t>{}, {0, 2, 0, 1}, {-4, 2, 0, 1}}) {
        CHECK(agree_with(wrong).status().code() == ErrorCode::internal);
    }
    CHECK(agree_with({std::numeric_limits<std::int32_t>::max(), 2, 0, 1}).status().code() == ErrorCode::internal);
    const std::string begin = "init: the ranks give different process sets: rank 0: [0, 1]; rank 1: ";
    CHECK(agree_with({1}).status().message() == begin + "none; expected the same on all");
    CHECK(agree_with({1, 1, 4, 1, 5}).status().message() == begin + "[4], [5]; expected the same on all");
    const std::string damaged = begin + "something that no working rank asks for; expected the same on all";
    CHECK(agree_with({1, 2, 0, 1}, 1).status().message() == damaged);
    CHECK(agree_with({1, -1, 0, 1}).status().message() == damaged);
    CHECK(agree_with({1, 3, 0, 1}).status().message() == damaged);
}

TEST_CASE("the arguments of rueda_init_with are checked", "[processes]") {
    check_passed(run_public_ranks(2, [](RankContext& context) {
        const auto told = [](const rueda_init_options& options) {
            RUEDA_RANK_EQUAL(rueda_init_with(&options), RUEDA_INVALID_ARGUMENT);
            return std::string(rueda_last_error());
        };
        rueda_init_options options = RUEDA_INIT_OPTIONS_INIT;
        options.struct_size = 8;
        RUEDA_RANK_EQUAL(told(options), std::string("rueda_init_options::struct_size is 8; expected 64: begin with "
                                                    "RUEDA_INIT_OPTIONS_INIT"));
        options = RUEDA_INIT_OPTIONS_INIT;
        options.process_set_count = 2;
        RUEDA_RANK_EQUAL(told(options), std::string("init: the list of 2 process sets is NULL; expected their ranks"));
        const rueda_rank_list missing{nullptr, 3};
        options.process_sets = &missing;
        options.process_set_count = 1;
        RUEDA_RANK_EQUAL(told(options), std::string("init: the list of 3 ranks of a process set is NULL; expected "
                                                    "their numbers"));
        options = RUEDA_INIT_OPTIONS_INIT;
        options.rank_count = 1;
        RUEDA_RANK_CHECK(told(options).find("its address or its size is missing") != std::string::npos);
        const std::int32_t ranks[] = {0, 1};
        options.ranks = ranks;
        options.communicator = ranks;
        options.communicator_size = 4;
        RUEDA_RANK_CHECK(told(options).find("expected one of them") != std::string::npos);

        RUEDA_RANK_EQUAL(rueda_init_with(nullptr), static_cast<int>(RUEDA_OK));
        RUEDA_RANK_EQUAL(rueda_shutdown(), static_cast<int>(RUEDA_OK));
        // A program that was compiled with a later version of Rueda may pass a longer struct. The struct below has no
        // memory for the sets' numbers, which is optional.
        struct {
            rueda_init_options known = RUEDA_INIT_OPTIONS_INIT;
            char more[32] = {};
        } later;
        const rueda_rank_list list{ranks, 1};
        later.known.struct_size = sizeof later;
        later.known.process_sets = &list;
        later.known.process_set_count = 1;
        later.more[5] = 1;  // this sets an option that the library does not know
        RUEDA_RANK_CHECK(told(later.known).find("has an option behind its first 64 bytes") != std::string::npos);
        later.more[5] = 0;
        RUEDA_RANK_EQUAL(rueda_init_with(&later.known), static_cast<int>(RUEDA_OK));
        std::int32_t ids[4] = {};
        std::size_t count = 0;
        RUEDA_RANK_EQUAL(rueda_process_set_ids(ids, 4, &count), static_cast<int>(RUEDA_OK));
        RUEDA_RANK_EQUAL(count, std::size_t{2});
        int included = -1;
        RUEDA_RANK_EQUAL(rueda_process_set_included(ids[1], &included), static_cast<int>(RUEDA_OK));
        RUEDA_RANK_EQUAL(included, context.rank() == 0 ? 1 : 0);
        RUEDA_RANK_EQUAL(rueda_shutdown(), static_cast<int>(RUEDA_OK));
    }));
}

}  // namespace
}  // namespace rueda::tests
