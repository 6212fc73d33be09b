// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The Rueda authors
// The rendezvous of some ranks of MPI_COMM_WORLD, tested with a fake MPI: the test writes the other ranks' messages
// into the mail beforehand.
#include "collectives/mpi/mpi_meeting.hpp"

#include <catch2/catch.hpp>
#include <cstring>
#include <tuple>

#include "collectives/mpi/mpi_control_plane.hpp"
#include "tests/collectives/mpi/stand_in_mpi.hpp"
#include "tests/collectives/plane_checks.hpp"

namespace rueda::collectives {
namespace {

using tests::outcome;
using tests::StandIn;
using namespace std::chrono_literals;
using Numbers = std::vector<std::int32_t>;

/// Rank `own` of five.
StandIn rank_of_five(int own) {
    StandIn mpi;
    mpi.is_initialized = true;
    mpi.own_rank = own;
    mpi.job_size = 5;
    return mpi;
}

void put(StandIn& mpi, int from, const Numbers& numbers) {
    const auto bytes = std::as_bytes(std::span(numbers));
    (*mpi.mail)[{from, mpi.own_rank, kMeetingTag}].emplace_back(bytes.begin(), bytes.end());
}

/// The messages sent to that rank, in order.
std::vector<Numbers> sent(const StandIn& mpi, int to) {
    std::vector<Numbers> all;
    for (const auto& bytes : (*mpi.mail)[{mpi.own_rank, to, kMeetingTag}]) {
        all.emplace_back(bytes.size() / sizeof(std::int32_t));
        std::memcpy(all.back().data(), bytes.data(), bytes.size());
    }
    return all;
}

constexpr std::int32_t kAttempt = 7;

Status meet(
    StandIn& mpi, const Numbers& members, std::chrono::milliseconds timeout = 10s,
    const std::function<Status()>& go_on = [] { return Status(); }) {
    const MeetingPlan plan{members, mpi.job_size, true, timeout};
    const Status met = meet_members(mpi, MPI_COMM_WORLD, plan, mpi.own_rank, kAttempt, go_on);
    CHECK(mpi.requests() == 0);  // nothing is left that could take a later rendezvous' messages
    return met;
}

TEST_CASE("the lowest compares the lists, asks and answers", "[unit]") {
    StandIn mpi = rank_of_five(1);
    put(mpi, 3, {1, 20, 1, 3, 4});
    put(mpi, 3, {3, 20, 1});
    put(mpi, 4, {1, 30, 1, 3, 4});
    put(mpi, 4, {3, 30, 1});
    CHECK(outcome(meet(mpi, {1, 3, 4})) == "ok");
    CHECK(sent(mpi, 3) == std::vector<Numbers>{{4, 20, 1}, {0, 20}});
    CHECK(sent(mpi, 4) == std::vector<Numbers>{{4, 30, 1}, {0, 30}});
    CHECK(sent(mpi, 0).empty());
}

TEST_CASE("a guest says that it is there, and goes", "[unit]") {
    StandIn mpi = rank_of_five(3);
    put(mpi, 1, {2, 6, 4});  // an answer to an earlier attempt
    put(mpi, 1, {4, kAttempt, 1});
    put(mpi, 1, {0, kAttempt});
    CHECK(outcome(meet(mpi, {1, 3, 4})) == "ok");
    CHECK(sent(mpi, 1) == std::vector<Numbers>{{1, kAttempt, 1, 3, 4}, {3, kAttempt, 1}});
}

TEST_CASE("lists that differ are told to everybody", "[unit]") {
    const std::string text =
        "Mismatch: init: ranks that meet have given different lists: rank 1: 1, 3, 4; rank 4: 1, 4; give the same one "
        "in all of its members";
    StandIn lowest = rank_of_five(1);
    put(lowest, 3, {1, 20, 1, 3, 4});
    put(lowest, 3, {3, 20, 1});
    put(lowest, 4, {1, 30, 1, 4});
    put(lowest, 4, {3, 30, 1});
    CHECK(outcome(meet(lowest, {1, 3, 4})) == text);
    CHECK(sent(lowest, 3).back() == Numbers{1, 20, 1, 4, 3, 1, 3, 4, 1, 4});
    CHECK(sent(lowest, 4).back() == Numbers{1, 30, 1, 4, 3, 1, 3, 4, 1, 4});

    StandIn other = rank_of_five(3);
    put(other, 1, {1, kAttempt, 1, 4, 3, 1, 3, 4, 1, 4});
    CHECK(outcome(meet(other, {1, 3, 4})) == text);
    CHECK(sent(other, 1) == std::vector<Numbers>{{1, kAttempt, 1, 3, 4}});
}

TEST_CASE("who does not come is named", "[unit]") {
    const std::string text =
        "Timeout: start: of the ranks 0, 2, 3, 4 that are to be a job, 2, 4 did not come within 0.05 s "
        "(RUEDA_START_TIMEOUT)";
    StandIn lowest = rank_of_five(0);
    put(lowest, 3, {1, 20, 0, 2, 3, 4});
    CHECK(outcome(meet(lowest, {0, 2, 3, 4}, 50ms)) == text);
    CHECK(sent(lowest, 3) == std::vector<Numbers>{{2, 20, 2, 4}});
    CHECK(sent(lowest, 2).empty());

    StandIn other = rank_of_five(3);
    put(other, 0, {2, kAttempt, 2, 4});
    CHECK(outcome(meet(other, {0, 2, 3, 4}, 50ms)) == text);

    StandIn alone = rank_of_five(3);
    CHECK(outcome(meet(alone, {0, 3}, 50ms)).starts_with("Timeout: start: rank 0 of those that were launched did not"));
    CHECK(alone.diary == "cancel ");
    CHECK(sent(alone, 0) == std::vector<Numbers>{{1, kAttempt, 0, 3}, {2, kAttempt}});
}

TEST_CASE("a meeting that somebody knows to be in vain ends at once", "[unit]") {
    StandIn lowest = rank_of_five(0);
    put(lowest, 3, {1, 20, 0, 2, 3});
    int asked = 0;
    const auto go_on = [&] { return ++asked < 3 ? Status() : Status(ErrorCode::aborted, "rank 2 is gone"); };
    CHECK(outcome(meet(lowest, {0, 2, 3}, 10s, go_on)) == "Aborted: rank 2 is gone");
    CHECK(sent(lowest, 3) == std::vector<Numbers>{{3, 20}});
    StandIn other = rank_of_five(3);
    put(other, 0, {3, kAttempt});
    CHECK(outcome(meet(other, {0, 2, 3})) == "Aborted: start: rank 0 of those that were launched has given up");
}

TEST_CASE("answers are checked", "[unit]") {
    for (const Numbers& answer :
         {Numbers{}, Numbers{7}, Numbers{-1, kAttempt}, Numbers{1, kAttempt}, Numbers{1, kAttempt, 0, 2},
          Numbers{1, kAttempt, 0, 2, -1}, Numbers{1, kAttempt, 0, 2, 9, 0, 1}, Numbers{4, kAttempt},
          Numbers(100, kAttempt), Numbers{0, kAttempt, 0}, Numbers{3, kAttempt, 0}}) {
        StandIn mpi = rank_of_five(3);
        put(mpi, 0, answer);
        CHECK(
            outcome(meet(mpi, {0, 3})).starts_with("Internal: start: rank 0 of those that were launched has answered"));
    }
    for (const std::size_t more : {1U, 2U, 3U}) {  // additional bytes after a correct answer
        StandIn mpi = rank_of_five(3);
        put(mpi, 0, {0, kAttempt});
        auto& bytes = (*mpi.mail)[{0, 3, kMeetingTag}].back();
        bytes.resize(bytes.size() + more);
        CHECK(
            outcome(meet(mpi, {0, 3})).starts_with("Internal: start: rank 0 of those that were launched has answered"));
    }
    for (const Numbers& letter : {Numbers{}, Numbers{1}, Numbers{9, 1}, Numbers(100, 1), Numbers{2, 1, 0}}) {
        StandIn lowest = rank_of_five(0);
        put(lowest, 3, letter);
        CHECK(outcome(meet(lowest, {0, 3})).starts_with("Internal: start: rank 3 of those that were launched has"));
    }
}

TEST_CASE("a plane of a list has its members' numbers, and those of the launch", "[unit]") {
    const auto mpi = std::make_shared<StandIn>(rank_of_five(1));
    for (const int guest : {3, 4}) {
        put(*mpi, guest, {1, 20, 1, 3, 4});
        put(*mpi, guest, {3, 20, 1});
    }
    MpiControlPlaneOptions options;
    options.membership = {true, {4, 3, 1}, {}};
    auto opened = open_mpi_control_plane(mpi, options);
    REQUIRE(opened.is_ok());
    CHECK(opened.value().control_plane->rank() == 0);
    CHECK(opened.value().control_plane->size() == 3);
    CHECK(opened.value().launch_ranks == std::vector<int>{1, 3, 4});
    CHECK(opened.value().launch_size == 5);
    opened.value().control_plane->close(false);
    CHECK(mpi->diary == "cancel cancel create release free ");
}

TEST_CASE("after a list that cannot be, MPI is finalised by who has initialised it", "[unit]") {
    const auto mpi = std::make_shared<StandIn>();
    mpi->job_size = 2;
    MpiControlPlaneOptions options;
    options.membership = {true, {1}, {}};
    CHECK(outcome(open_mpi_control_plane(mpi, options).status()).starts_with("InvalidArgument: init: this process is"));
    options.membership = {true, {0}, {}};
    auto opened = open_mpi_control_plane(mpi, options);
    REQUIRE(opened.is_ok());
    opened.value().control_plane->close(false);
    CHECK(mpi->diary == "init create release free finalize ");
}

TEST_CASE("communicators that cannot be are refused", "[unit]") {
    const auto said = [](const std::shared_ptr<StandIn>& mpi, std::vector<std::byte> bytes) {
        MpiControlPlaneOptions options;
        options.membership.communicator = std::move(bytes);
        return outcome(open_mpi_control_plane(mpi, options).status());
    };
    const auto bytes_of = [](MPI_Comm communicator) {
        const auto bytes = std::as_bytes(std::span(&communicator, 1));
        return std::vector<std::byte>(bytes.begin(), bytes.end());
    };
    const auto mpi = std::make_shared<StandIn>(rank_of_five(2));
    CHECK(said(mpi, std::vector<std::byte>(3)).starts_with("InvalidArgument: init: the communicator has 3 bytes"));
    CHECK(said(mpi, bytes_of(MPI_COMM_NULL)).starts_with("InvalidArgument: init: the communicator is MPI_COMM_NULL"));
    mpi->is_between = true;
    CHECK(said(mpi, bytes_of(MPI_COMM_WORLD)).starts_with("InvalidArgument: init: the communicator is an inter"));
    mpi->is_between = false;
    mpi->own_rank = 0;
    mpi->job_size = 1;
    CHECK(said(mpi, bytes_of(MPI_COMM_WORLD)) == "ok");
    CHECK(mpi->diary == "dup ");
}

}  // namespace
}  // namespace rueda::collectives
