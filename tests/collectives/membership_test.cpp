// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The Rueda authors
#include "collectives/membership.hpp"

#include <fmt/format.h>

#include <catch2/catch.hpp>
#include <span>
#include <string>
#include <utility>
#include <vector>

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
          "InvalidArgument: init: this process is rank 1 of those that were launched, and the list is 0, 3: call init "
          "only in the members of the list");
}

/// A control plane of rank 1. The test gives the constructor the messages of the other ranks.
class SaidPlane final : public ControlPlane {
public:
    explicit SaidPlane(std::vector<Bytes> said) : said_(std::move(said)) {}
    [[nodiscard]] int rank() const override { return 1; }
    [[nodiscard]] int size() const override { return static_cast<int>(said_.size()); }
    [[nodiscard]] std::string description() const override { return "a test"; }
    Result<std::vector<Bytes>> allgather(std::span<const std::byte> mine) override {
        said_[1].assign(mine.begin(), mine.end());
        return said_;
    }
    Result<Bytes> broadcast(std::span<const std::byte> /*mine*/, int /*root*/) override { return Bytes(); }
    Status barrier() override { return {}; }
    void close(bool /*after_failure*/) override {}

private:
    std::vector<Bytes> said_;
};

Bytes bytes_of(const std::vector<int>& list, std::size_t more = 0) {
    const auto bytes = std::as_bytes(std::span(list));
    Bytes all(bytes.begin(), bytes.end());
    all.resize(all.size() + more);
    return all;
}

TEST_CASE("ranks that meet have the same list, byte for byte", "[unit]") {
    const auto said = [](const Bytes& first, const Bytes& last) {
        SaidPlane plane({first, {}, last});
        return outcome(agree_on_members(plane, std::vector<int>{0, 2, 5}));
    };
    const Bytes same = bytes_of({0, 2, 5});
    CHECK(said(same, same) == "ok");
    CHECK(said(same, bytes_of({0, 2, 6})) ==
          "Mismatch: init: the ranks of the new job were given different lists: rank 0: 0, 2, 5; rank 6: 0, 2, 6; give "
          "the same list to all of its members");
    const auto refused = [](int number, std::size_t bytes) {
        return fmt::format(
            "Internal: init: rank {} of the new job sent {} bytes that are not a list of 3 ranks; expected as many "
            "numbers of 4 bytes, ascending from 0 on: do all ranks run the same build of Rueda?",
            number, bytes);
    };
    for (const std::size_t more : {1U, 2U, 3U, 4U}) {
        CHECK(said(bytes_of({0, 2, 5}, more), same) == refused(0, 12 + more));
        CHECK(said(same, bytes_of({0, 2, 5}, more)) == refused(2, 12 + more));
    }
    CHECK(said(same, {}) == refused(2, 0));
    CHECK(said(same, bytes_of({0, 5})) == refused(2, 8));
    CHECK(said(same, bytes_of({0, 5, 2})) == refused(2, 12));
    CHECK(said(same, bytes_of({0, 2, 2})) == refused(2, 12));
    CHECK(said(same, bytes_of({-1, 2, 5})) == refused(2, 12));
}

TEST_CASE("long lists are cut in messages", "[unit]") {
    std::vector<int> ranks(33);
    CHECK(describe_ranks(ranks).ends_with("0, …"));
    ranks.pop_back();
    CHECK(describe_ranks(ranks).ends_with("0, 0"));
    CHECK(outcome(lists_differ(0, "0, 1", 2, "0, 2")) ==
          "Mismatch: init: the ranks of the new job were given different lists: rank 0: 0, 1; rank 2: 0, 2; give the "
          "same list to all of its members");
}

}  // namespace
}  // namespace rueda::collectives
