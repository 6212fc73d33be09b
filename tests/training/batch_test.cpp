// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The Rueda authors
#include "rueda/training/batch.hpp"

#include <catch2/catch.hpp>
#include <limits>

#include "tests/training/messages.hpp"

namespace rueda::training {
namespace {
using Catch::Matchers::Contains;
using test::message_of;

std::string refusal(const BatchOptions& options) {
    return message_of<InvalidArgument>([&] { (void)plan_batch(options); });
}

TEST_CASE("a global batch is divided, a batch per worker multiplied", "[training]") {
    const Batch global = plan_batch({.size = 96, .workers = 4});
    CHECK(global.global == 96);
    CHECK(global.per_worker == 24);
    CHECK(global.summary == "batch: 96 samples over 4 workers, 24 on each");
    const Batch each = plan_batch({.size = 32, .meaning = BatchMeaning::per_worker, .workers = 3});
    CHECK(each.global == 96);
    CHECK(each.per_worker == 32);
    CHECK(each.summary == "batch: 96 samples over 3 workers, 32 on each");
    CHECK(plan_batch({.size = 5}).summary == "batch: 5 samples over 1 worker, 5 on each");
}

TEST_CASE("a batch that cannot be divided is refused or rounded, and the summary says so", "[training]") {
    CHECK(refusal({.size = 100, .workers = 8}) ==
          "batch: 100 samples cannot be divided equally among 8 workers; choose a multiple of 8: next to it are 12 × 8 "
          "and 13 × 8");
    const Batch down = plan_batch({.size = 100, .workers = 8, .indivisible = Indivisible::round_down});
    CHECK(down.global == 96);
    CHECK(down.summary == "batch: 96 samples over 8 workers, 12 on each (rounded down from 100)");
    const Batch up = plan_batch({.size = 100, .workers = 8, .indivisible = Indivisible::round_up});
    CHECK(up.per_worker == 13);
    CHECK(up.summary == "batch: 104 samples over 8 workers, 13 on each (rounded up from 100)");
    CHECK_THAT(refusal({.size = 3, .workers = 8, .indivisible = Indivisible::round_down}),
               Contains("3 samples") && Contains("the smallest is 8"));
}

TEST_CASE("sizes out of range are named", "[training]") {
    CHECK_THAT(refusal({.size = 0}), Contains("size is 0"));
    CHECK_THAT(refusal({.size = 1, .workers = 0}), Contains("workers is 0"));
    CHECK_THAT(
        refusal({.size = std::numeric_limits<std::int64_t>::max(), .meaning = BatchMeaning::per_worker, .workers = 2}),
        Contains("do not fit into a 64-bit integer"));
}

}  // namespace
}  // namespace rueda::training
