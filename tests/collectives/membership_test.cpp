// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The Rueda authors
#include "collectives/membership.hpp"

#include <catch2/catch.hpp>

#include "tests/collectives/plane_checks.hpp"

namespace rueda::collectives {
namespace {

using tests::outcome;

TEST_CASE("members are the ranks of a list in ascending order", "[unit]") {
    const auto members = check_members({5, 0, 3}, 3, 6);
    REQUIRE(members.is_ok());
    CHECK(members.value() == std::vector<int>{0, 3, 5});
    CHECK(position_of(members.value(), 0) == 0);
    CHECK(position_of(members.value(), 3) == 1);
    CHECK(position_of(members.value(), 5) == 2);
    CHECK(check_members({0}, 0, 1).is_ok());
}

TEST_CASE("a list that cannot be names the rank", "[unit]") {
    const auto said = [](std::vector<int> list) { return outcome(check_members(std::move(list), 1, 4).status()); };
    CHECK(said({}) == "InvalidArgument: init: the list of ranks is empty; expected some of 0 to 3");
    CHECK(said({1, 4}) == "InvalidArgument: init: there is no rank 4; 4 processes were launched, 0 to 3");
    CHECK(said({1, -2, 9}) == "InvalidArgument: init: there is no rank -2; 4 processes were launched, 0 to 3");
    CHECK(said({3, 1, 3}) == "InvalidArgument: init: rank 3 is in the list twice; expected each once");
    CHECK(said({3, 0}) ==
          "InvalidArgument: init: this process is rank 1 of those that were launched, and the list is 0, 3: call it in "
          "its members only");
}

TEST_CASE("long lists are cut in messages", "[unit]") {
    std::vector<int> ranks(33);
    CHECK(describe_ranks(ranks).ends_with("0, …"));
    ranks.pop_back();
    CHECK(describe_ranks(ranks).ends_with("0, 0"));
    CHECK(
        outcome(lists_differ(0, std::vector<int>{0, 1}, 2, std::vector<int>{0, 2})) ==
        "Mismatch: init: ranks that meet have given different lists: rank 0: 0, 1; rank 2: 0, 2; give the same one in "
        "all of its members");
}

}  // namespace
}  // namespace rueda::collectives
