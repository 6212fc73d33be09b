// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The Rueda authors
#include "core/negotiation/open_batch.hpp"

#include <catch2/catch.hpp>

namespace rueda::core::test {
namespace {

constexpr std::int64_t kHold = 100'000;
constexpr std::int64_t kStill = OpenBatch::kStillNs;

TEST_CASE("a batch that grows stays open for a waiting caller") {
    OpenBatch open(kHold);
    CHECK(open.is_growing(5, 6, 0));
    CHECK(open.is_growing(5, 6, kStill - 1));
    CHECK(open.is_growing(5, 7, kStill));  // the batch has grown, so the caller waits once more
    CHECK(open.is_growing(5, 7, 2 * kStill - 1));
    CHECK_FALSE(open.is_growing(5, 7, 2 * kStill));
}

TEST_CASE("a waiting caller closes a batch that grows without end after the hold time") {
    OpenBatch open(kHold);
    std::uint64_t end = 6;
    for (std::int64_t now = 0; now < kHold; now += kStill / 2) {
        CHECK(open.is_growing(5, end++, now));
    }
    CHECK_FALSE(open.is_growing(5, end, kHold));
    CHECK(open.is_growing(end, end + 1, kHold));  // the next batch has its own time
}

TEST_CASE("a batch for which no caller waits is held for the hold time, beginning with the first look") {
    OpenBatch open(kHold);
    CHECK(open.is_held(5, 10));
    CHECK(open.is_held(5, 9 + kHold));
    CHECK(open.held_until_ns() == 10 + kHold);
    CHECK_FALSE(open.is_held(5, 10 + kHold));
    CHECK(open.is_held(8, 10 + kHold));
}

TEST_CASE("a caller that waits does not change how long a batch is held") {
    OpenBatch open(kHold);
    CHECK(open.is_held(5, 0));
    CHECK(open.is_growing(5, 6, 0));
    CHECK_FALSE(open.is_growing(5, 6, kStill));
    CHECK(open.is_held(5, kHold - 1));
    CHECK(open.held_until_ns() == kHold);
}

TEST_CASE("no batch stays open if the hold time is 0") {
    OpenBatch open(0);
    CHECK_FALSE(open.is_held(5, 10));
    CHECK_FALSE(open.is_growing(5, 6, 10));
}

}  // namespace
}  // namespace rueda::core::test
