// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The Rueda authors
// Tests how some ranks of a communicator find each other (a rendezvous). The ranks share a fake MPI, and the tests set
// the clock.
#include "collectives/mpi/mpi_rendezvous.hpp"

#include <catch2/catch.hpp>
#include <map>
#include <memory>
#include <optional>
#include <random>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "collectives/mpi/mpi_control_plane.hpp"
#include "collectives/wire.hpp"
#include "tests/collectives/mpi/stand_in_mpi.hpp"
#include "tests/collectives/plane_checks.hpp"

namespace rueda::collectives {
namespace {

using tests::outcome;
using tests::StandIn;
using namespace std::chrono_literals;
using Ranks = std::vector<int>;

/// Five ranks of a launch, and the messages in transit between them.
class Launch {
public:
    explicit Launch(bool is_by_list = true) : is_by_list_(is_by_list) {
        for (int rank = 0; rank < 5; ++rank) {
            mpis_.push_back(std::make_unique<StandIn>());
            mpis_.back()->own_rank = rank;
            mpis_.back()->job_size = 5;
            mpis_.back()->mail = mail_;
        }
    }

    void begin(int rank, Ranks members, std::chrono::milliseconds timeout = 10s) {
        const RendezvousPlan plan{MPI_COMM_WORLD, std::move(members), rank, is_by_list_, timeout};
        present_[rank] = begin_rendezvous(mpi(rank), plan, ++attempts_, now_);
        results_.erase(rank);
    }
    /// Lets a rank process its messages. Returns the rank's result if its rendezvous ends in this step.
    std::optional<Status> step(int rank) {
        auto result = present_.at(rank)->step(now_);
        if (result) {
            results_[rank] = outcome(*result);
            end(rank);
        }
        return result;
    }
    /// Lets all ranks process their messages until no message is left.
    void run() {
        for (int round = 0; round < 5; ++round) {
            for (int rank = 0; rank < 5; ++rank) {
                if (is_present(rank)) {
                    step(rank);
                }
            }
        }
    }
    void give_up(int rank) {
        present_.at(rank)->give_up();
        end(rank);
    }
    void pass(std::chrono::milliseconds time) { now_ += time; }
    void put(int from, int to, Bytes message) { (*mail_)[{from, to, kRendezvousTag}].push_back(std::move(message)); }

    StandIn& mpi(int rank) { return *mpis_[static_cast<std::size_t>(rank)]; }
    [[nodiscard]] bool is_present(int rank) const { return present_.count(rank) == 1; }
    [[nodiscard]] std::string result(int rank) const {
        const auto found = results_.find(rank);
        return found == results_.end() ? "none" : found->second;
    }
    [[nodiscard]] std::size_t unread(int from, int to) { return (*mail_)[{from, to, kRendezvousTag}].size(); }
    [[nodiscard]] int attempts() const { return attempts_; }

private:
    void end(int rank) {
        CHECK(present_.at(rank)->have_messages_left());
        present_.erase(rank);
        CHECK(mpi(rank).requests() == 0);  // a leftover receive could get a message of a later rendezvous
    }

    const bool is_by_list_;
    std::shared_ptr<tests::Mail> mail_ = std::make_shared<tests::Mail>();
    std::vector<std::unique_ptr<StandIn>> mpis_;
    std::map<int, std::unique_ptr<Rendezvous>> present_;
    std::map<int, std::string> results_;
    RendezvousTime now_{};
    int attempts_ = 0;
};

TEST_CASE("members with the same list meet, and nobody else hears of it", "[unit]") {
    Launch launch;
    for (const int rank : {1, 3, 4}) {
        launch.begin(rank, {1, 3, 4});
        launch.run();
        CHECK(launch.result(1) == (rank == 4 ? "ok" : "none"));
    }
    CHECK(launch.result(3) == "ok");
    CHECK(launch.result(4) == "ok");
    CHECK(launch.unread(1, 0) + launch.unread(1, 2) == 0);
}

TEST_CASE("lists that differ are told to all members", "[unit]") {
    Launch launch;
    launch.begin(1, {1, 3, 4});
    launch.begin(3, {1, 3, 4});
    launch.begin(4, {1, 4});
    launch.run();
    for (const int rank : {1, 3, 4}) {
        CHECK(launch.result(rank) ==
              "Mismatch: init: the ranks of the new job were given different lists: rank 1: 1, 3, 4; rank 4: 1, 4; "
              "give the same list to all of its members");
    }
    launch.begin(1, {1, 3, 4});  // after the error, the ranks can try again with a correct list
    launch.begin(3, {1, 3, 4});
    launch.begin(4, {1, 3, 4});
    launch.run();
    CHECK(launch.result(1) + launch.result(3) + launch.result(4) == "okokok");
}

TEST_CASE("members that do not come are named, and may come later", "[unit]") {
    const std::string text =
        "Timeout: start: some ranks did not come within 2 s (RUEDA_START_TIMEOUT): 2, 4; the ranks that are to be a "
        "job are 0, 2, 3, 4";
    Launch launch;
    launch.begin(0, {0, 2, 3, 4}, 2s);
    launch.begin(3, {0, 2, 3, 4}, 2s);
    launch.run();
    launch.pass(1999ms);
    launch.run();
    CHECK(launch.result(0) == "none");
    launch.pass(1ms);
    launch.run();
    CHECK(launch.result(0) == text);
    CHECK(launch.result(3) == text);

    // A message of the previous attempt has remained for rank 2. Rank 2 treats it as a new question of another rank.
    launch.begin(2, {0, 2, 3, 4}, 1s);
    launch.pass(2s + kRendezvousGrace - 1ms);
    launch.run();
    CHECK(launch.result(2) == "none");
    launch.pass(2s + kRendezvousGrace);
    launch.run();
    CHECK(launch.result(2).starts_with("Timeout: start: rank 0 of those that were launched did not answer within 1 s"));

    for (const int rank : {4, 3, 2, 0}) {
        launch.begin(rank, {0, 2, 3, 4});
        launch.run();
    }
    CHECK(launch.result(0) + launch.result(2) + launch.result(3) + launch.result(4) == "okokokok");
}

TEST_CASE("a member that no lowest member asks gives up and leaves no message behind", "[unit]") {
    for (const bool is_by_list : {true, false}) {
        Launch launch(is_by_list);
        launch.begin(3, {0, 3}, 500ms);
        launch.pass(500ms + kRendezvousGrace - 1ms);
        launch.run();
        CHECK(launch.result(3) == "none");
        launch.pass(1ms);
        launch.run();
        CHECK(launch.result(3) ==
              (is_by_list ? "Timeout: start: rank 0 of those that were launched did not answer within 0.5 s "
                            "(RUEDA_START_TIMEOUT): it has not called init, or with a list that this rank is not in"
                          : "Timeout: start: rank 0 of the communicator did not answer within 0.5 s "
                            "(RUEDA_START_TIMEOUT): it has not called init"));
        CHECK(launch.unread(3, 0) == 0);
    }
}

TEST_CASE("a member that has answered waits as long as the lowest member can", "[unit]") {
    Launch launch;
    launch.begin(0, {0, 1, 2}, 60s);
    launch.begin(1, {0, 1, 2}, 1s);
    launch.run();
    launch.pass(59s);
    launch.run();
    launch.begin(2, {0, 1, 2}, 1s);
    launch.run();
    CHECK(launch.result(0) + launch.result(1) + launch.result(2) == "okokok");
}

TEST_CASE("a lowest member that leaves tells those that have answered", "[unit]") {
    Launch launch;
    launch.begin(0, {0, 1, 2});
    launch.begin(1, {0, 1, 2});
    launch.run();
    launch.give_up(0);
    launch.run();
    CHECK(launch.result(1) == "Aborted: start: rank 0 of those that were launched has given up");
}

TEST_CASE("a failed call of MPI ends the rendezvous", "[unit]") {
    for (const int rank : {0, 1}) {
        Launch launch;
        launch.mpi(rank).messages = Status(ErrorCode::aborted, "MPI_Iprobe failed: no network (MPI error 5)");
        launch.begin(rank, {0, 1});
        launch.run();
        CHECK(launch.result(rank) == "Aborted: MPI_Iprobe failed: no network (MPI error 5)");
    }
}

Bytes message_of(const std::vector<std::int32_t>& numbers, std::size_t more_bytes = 0) {
    WireWriter writer;
    for (const std::int32_t number : numbers) {
        writer.number(number);
    }
    writer.append(Bytes(more_bytes));
    return std::move(writer).take();
}

TEST_CASE("damaged messages end the rendezvous", "[unit]") {
    for (const Bytes& message : {message_of({}), message_of({1}), message_of({1, -1}), message_of({1, 1000}, 1),
                                 message_of({1, 1000}, 100'000)}) {
        Launch launch;
        launch.put(0, 3, message);
        launch.begin(3, {0, 3});
        launch.run();
        CHECK(launch.result(3).starts_with(
            "Internal: start: rank 0 of those that were launched has sent a message that no Rueda sends"));
    }
    for (const Bytes& message : {message_of({1, 0}, 3), message_of({1, 0, 4, 9}), message_of({1, 0, 99, 0})}) {
        Launch launch;
        launch.put(0, 3, message_of({1, 1000}));
        launch.put(0, 3, message);
        launch.begin(3, {0, 3});
        launch.run();
        CHECK(launch.result(3).starts_with("Internal: a failure of another rank arrived damaged"));
    }
    for (const Bytes& message : {message_of({}), message_of({1}), message_of({1, 2, 3}), message_of({1, 2, 3, 9}),
                                 message_of({1, 2, 3, 0}, 1), message_of({1, 2, 3, 5000}, 5000)}) {
        Launch launch;
        launch.put(3, 0, message);
        launch.begin(0, {0, 3});
        launch.run();
        CHECK(launch.result(0).starts_with(
            "Internal: start: rank 3 of those that were launched has sent a message that no Rueda sends"));
    }
}

TEST_CASE("the text of a list from another process is shown on one line", "[unit]") {
    Launch launch;
    WireWriter answer;
    answer.number(std::int32_t{1});
    answer.number(std::uint64_t{5});
    answer.text("0,\n3");
    launch.put(3, 0, std::move(answer).take());
    launch.begin(0, {0, 3});
    launch.run();
    CHECK(launch.result(0).find("rank 0: 0, 3; rank 3: 0,?3;") != std::string::npos);
}

TEST_CASE("ranks that come and give up at any time go together or not at all", "[unit]") {
    int attempts = 0;
    for (unsigned seed = 0; seed < 300; ++seed) {
        INFO("seed " << seed);
        std::mt19937 random(seed);
        Launch launch;
        std::set<int> gone;
        for (int turn = 0; turn < 20'000 && gone.size() < 3; ++turn) {
            launch.pass(std::chrono::milliseconds(random() % 20));
            const int rank = static_cast<int>(random() % 3);
            if (!launch.is_present(rank)) {
                if (gone.count(rank) == 0 && random() % 64 == 0) {
                    launch.begin(rank, {0, 1, 2}, std::chrono::milliseconds(200 + random() % 1000));
                }
            } else if (const auto result = launch.step(rank)) {
                INFO("rank " << rank << ": " << outcome(*result));
                // No rank may succeed before the lowest member, or fail after the lowest member has succeeded.
                CHECK((result->is_ok() ? rank == 0 || gone.count(0) == 1 : gone.count(0) == 0));
                CHECK((result->is_ok() || result->code() == ErrorCode::timeout));
                if (result->is_ok()) {
                    gone.insert(rank);
                }
            }
        }
        CHECK(gone.size() == 3);  // all members have succeeded
        attempts += launch.attempts();
    }
    CHECK(attempts > 1800);  // 900 attempts have succeeded (3 ranks × 300 seeds); more than 900 others must have failed
}

/// Returns the fake MPI of rank `own` of five ranks. The program has already initialised MPI.
std::shared_ptr<StandIn> rank_of_five(int own) {
    auto mpi = std::make_shared<StandIn>();
    mpi->is_initialized = true;
    mpi->own_rank = own;
    mpi->job_size = 5;
    return mpi;
}

TEST_CASE("a plane of a list has its members' numbers, and those of the launch", "[unit]") {
    const auto mpi = rank_of_five(1);
    mpi->others_meet = true;
    mpi->those_who_meet = {1, 3, 4};
    MpiControlPlaneOptions options;
    options.membership = {true, {4, 3, 1}, {}};
    auto opened = open_mpi_control_plane(mpi, options);
    REQUIRE(opened.is_ok());
    CHECK(opened.value().control_plane->rank() == 0);
    CHECK(opened.value().control_plane->size() == 3);
    CHECK(opened.value().launch_ranks == std::vector<int>{1, 3, 4});
    CHECK(opened.value().launch_size == 5);
    opened.value().control_plane->close(false);
    CHECK(mpi->diary == "create release free ");
}

TEST_CASE("after an invalid list MPI stays initialised, and is finalised as usual", "[unit]") {
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

TEST_CASE("invalid communicators are refused", "[unit]") {
    const auto said = [](const std::shared_ptr<StandIn>& mpi, std::vector<std::byte> bytes) {
        MpiControlPlaneOptions options;
        options.membership.communicator = std::move(bytes);
        return outcome(open_mpi_control_plane(mpi, options).status());
    };
    const auto bytes_of = [](MPI_Comm communicator) {
        const auto bytes = std::as_bytes(std::span(&communicator, 1));
        return std::vector<std::byte>(bytes.begin(), bytes.end());
    };
    const auto mpi = rank_of_five(2);
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
