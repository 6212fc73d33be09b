// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The Rueda authors
// Tests messages over a fake MPI: which MPI calls Rueda makes, and that it makes none after a failure.
#include "collectives/mpi/mpi_transport.hpp"

#include <catch2/catch.hpp>

#include "collectives/mpi/mpi_control_plane.hpp"
#include "tests/collectives/mpi/stand_in_mpi.hpp"
#include "tests/collectives/plane_checks.hpp"

namespace rueda::collectives {
namespace {

using tests::outcome;
using tests::pattern;
using tests::StandIn;
using Channel = Transport::Channel;
using namespace std::chrono_literals;

/// A rank with a control plane and a transport over a fake MPI that the program has initialised.
struct Rank {
    Rank(int rank, int size, std::shared_ptr<tests::Mail> mail) : mpi(std::make_shared<StandIn>()) {
        mpi->is_initialized = true;
        mpi->own_rank = rank;
        mpi->job_size = size;
        mpi->mail = std::move(mail);
        mpi->others_meet = true;
        auto opened = open_mpi_control_plane(mpi, {200ms, MpiFinalize::at_close});
        plane = std::move(opened.value().control_plane);
        mpi->diary.clear();
    }
    [[nodiscard]] Transport& transport() const { return *plane->transport(); }

    std::shared_ptr<StandIn> mpi;
    std::unique_ptr<ControlPlane> plane;
};

struct Pair {
    std::shared_ptr<tests::Mail> mail = std::make_shared<tests::Mail>();
    Rank a{0, 2, mail};
    Rank b{1, 2, mail};
};

std::optional<std::size_t> done(const Rank& rank, Transport::Ticket ticket) {
    return rank.transport().test(ticket).value();
}

TEST_CASE("a message is there once it was sent, in its channel's order", "[unit]") {
    const Pair pair;
    Bytes first(10);
    Bytes second(10);
    Bytes other(10);
    const auto in_first = pair.b.transport().receive(0, Channel::data, first).value();
    const auto in_second = pair.b.transport().receive(0, Channel::data, second).value();
    const auto in_other = pair.b.transport().receive(0, Channel::control, other).value();
    CHECK_FALSE(done(pair.b, in_first));

    const Bytes sent = pattern(7, 1);
    const auto out_first = pair.a.transport().send(1, Channel::data, sent).value();
    CHECK(done(pair.a, out_first) == 7U);
    CHECK_FALSE(done(pair.b, in_second));
    CHECK_FALSE(done(pair.b, in_other));
    CHECK(done(pair.b, in_first) == 7U);
    CHECK(std::equal(sent.begin(), sent.end(), first.begin()));

    CHECK(done(pair.a, pair.a.transport().send(1, Channel::control, {}).value()) == 0U);
    CHECK_FALSE(done(pair.b, in_second));
    CHECK(done(pair.b, in_other) == 0U);
    CHECK(pair.b.mpi->requests() == 1);
}

TEST_CASE("places are used again, tickets are not", "[unit]") {
    const Pair pair;
    std::vector<Transport::Ticket> seen;
    for (int i = 0; i < 100; ++i) {
        const auto ticket = pair.a.transport().send(1, Channel::data, {}).value();
        CHECK(done(pair.a, ticket) == 0U);
        CHECK(std::count(seen.begin(), seen.end(), ticket) == 0);
        seen.push_back(ticket);
    }
    CHECK(pair.a.mpi->requests() == 0);
}

TEST_CASE("a ticket leaves bit 63 to wrapping transports, however often its place was used", "[unit]") {
    const Pair pair;
    MpiTransport worn(pair.a.mpi, std::make_shared<MpiLife>(), MPI_COMM_WORLD, 0, 2, 0x7fff'fffe);
    for (const std::uint64_t generation : {0x7fff'ffffU, 0U, 1U}) {
        const auto ticket = worn.send(1, Channel::data, {}).value();
        CHECK(ticket == generation << 32U);
        CHECK(worn.test(ticket).value() == 0U);
    }
}

TEST_CASE("a message longer than its room ends the job, with both lengths where MPI knows them", "[unit]") {
    const auto [hides_length, text] = GENERATE(
        table<bool, std::string>({{false, "Aborted: rank 0 sent 11 bytes where rank 1 has room for 10"},
                                  {true, "Aborted: rank 0 sent more than the 10 bytes that rank 1 has room for"}}));
    const Pair pair;
    pair.b.mpi->hides_length = hides_length;
    Bytes room(10);
    const auto ticket = pair.b.transport().receive(0, Channel::data, room).value();
    static_cast<void>(pair.a.transport().send(1, Channel::data, pattern(11, 1)).value());
    CHECK(outcome(pair.b.transport().test(ticket).status()) == text);
    // Every later call returns the same error, also for other messages.
    CHECK(outcome(pair.b.transport().test(ticket).status()) == text);
    CHECK(outcome(pair.b.transport().receive(0, Channel::control, room).status()) == text);
    pair.b.plane->close(false);
    CHECK(pair.b.mpi->diary.empty());
}

TEST_CASE("a failure of MPI names the other rank", "[unit]") {
    const Pair pair;
    Bytes room(10);
    const auto ticket = pair.b.transport().receive(0, Channel::data, room).value();
    pair.b.mpi->messages = Status(ErrorCode::aborted, "MPI_Test failed: no network (MPI error 5)");
    const std::string text = "Aborted: a message from rank 0: MPI_Test failed: no network (MPI error 5)";
    CHECK(outcome(pair.b.transport().test(ticket).status()) == text);
    pair.b.mpi->messages = Status();
    CHECK(outcome(pair.b.transport().send(0, Channel::data, {}).status()) == text);

    pair.a.mpi->messages = Status(ErrorCode::aborted, "MPI_Isend failed");
    CHECK(outcome(pair.a.transport().send(1, Channel::data, {}).status()) ==
          "Aborted: a message to rank 1: MPI_Isend failed");
}

TEST_CASE("after an abort, and after MPI_Finalize, MPI is left alone", "[unit]") {
    const Pair pair;
    Bytes room(10);
    const auto ticket = pair.b.transport().receive(0, Channel::data, room).value();
    static_cast<void>(pair.a.transport().send(1, Channel::data, pattern(3, 1)).value());
    std::string text;
    SECTION("abort") {
        pair.b.transport().abandon();
        text = "Aborted: the job has ended: rank 1 sends and receives no more messages";
    }
    SECTION("MPI_Finalize") {
        pair.b.mpi->end();
        text =
            "Aborted: a message from rank 0: the program has called MPI_Finalize while Rueda was in use: call "
            "rueda::shutdown() first";
    }
    SECTION("a failure of the control plane") {
        pair.b.mpi->answers = false;
        CHECK_FALSE(pair.b.plane->barrier().is_ok());
        text = "Aborted: barrier: not all ranks came within 0.2 s";
    }
    CHECK(outcome(pair.b.transport().test(ticket).status()) == text);
    CHECK(outcome(pair.b.transport().receive(0, Channel::data, room).status()) == text);
    CHECK_FALSE(pair.b.transport().send(0, Channel::data, {}).is_ok());
    CHECK(pair.b.mpi->requests() == 1);
    CHECK(room == Bytes(10));
    pair.b.plane->close(false);
    CHECK(pair.b.mpi->diary.empty());
}

TEST_CASE("a receive is taken back, and what is sent to it later comes before the end", "[unit]") {
    const Pair pair;
    Bytes room(10);
    const auto receive = pair.b.transport().receive(0, Channel::control, room).value();
    CHECK(pair.b.transport().cancel(receive).value());
    CHECK(pair.b.mpi->requests() == 0);
    static_cast<void>(pair.a.transport().send(1, Channel::control, pattern(7, 1)).value());
    pair.b.mpi->expected = 1;
    pair.b.plane->close(false);
    CHECK(room == Bytes(10));
    CHECK(pair.b.mpi->requests() == 0);
}

TEST_CASE("a receive that a message is coming into cannot be taken back", "[unit]") {
    const Pair pair;
    Bytes room(10);
    const auto receive = pair.b.transport().receive(0, Channel::control, room).value();
    pair.b.mpi->is_coming = true;
    CHECK_FALSE(pair.b.transport().cancel(receive).value());
    CHECK(pair.b.mpi->requests() == 1);
}

TEST_CASE("receives that are posted at the end are cancelled before the communicator is freed", "[unit]") {
    const Pair pair;
    Bytes rooms(20);
    static_cast<void>(pair.b.transport().receive(0, Channel::data, std::span(rooms).first(10)).value());
    static_cast<void>(pair.b.transport().receive(0, Channel::control, std::span(rooms).last(10)).value());
    pair.b.plane->close(false);
    CHECK(pair.b.mpi->diary == "cancel cancel release free ");
    CHECK(pair.b.mpi->requests() == 0);
}

TEST_CASE("all messages to a rank arrive before the end, even if no receive waits for them", "[unit]") {
    const Pair pair;
    Bytes room(10);
    static_cast<void>(pair.b.transport().receive(0, Channel::control, room).value());
    for (const Channel channel : {Channel::control, Channel::data, Channel::data}) {
        static_cast<void>(pair.a.transport().send(1, channel, pattern(9, 1)).value());
    }
    pair.b.mpi->expected = 3;
    pair.a.plane->close(false);
    pair.b.plane->close(false);
    CHECK(pair.a.mpi->told == std::vector<std::uint32_t>{0, 3});
    CHECK(pair.b.mpi->told == std::vector<std::uint32_t>{0, 0});
    for (const auto& [address, queue] : *pair.mail) {
        CHECK(queue.empty());
    }
    CHECK(pair.b.mpi->diary == "release free ");
    CHECK(pair.b.mpi->requests() == 0);
}

TEST_CASE("a message that no rank of Rueda sends is refused before memory is allocated for it", "[unit]") {
    const int tag = 32001;  // the MPI tag of the channel that any two ranks may use
    const auto refused = [](std::size_t bytes, int from) {
        return fmt::format(
            "Aborted: MPI has a message of {} bytes from rank {} for rank 1; expected at most 1073741824 bytes, from "
            "another of ranks 0 to 1",
            bytes, from);
    };
    const auto asked = GENERATE(true, false);
    const auto [from, bytes] = GENERATE(table<int, std::size_t>({{5, 3}, {-1, 3}, {0, (std::size_t{1} << 30) + 1}}));
    const Pair pair;
    (*pair.mail)[{from, 1, tag}].emplace_back(3);
    pair.b.mpi->probed_bytes = bytes;
    if (asked) {
        CHECK(outcome(pair.b.transport().probe().status()) == refused(bytes, from));
        CHECK(outcome(pair.b.transport().receive(0, Channel::data, {}).status()) == refused(bytes, from));
    } else {
        pair.b.mpi->expected = 1;
    }
    pair.b.plane->close(false);
    CHECK(pair.b.mpi->diary.empty());  // after a failure, close() makes no MPI call
    CHECK(pair.b.mpi->requests() == 0);
}

TEST_CASE("a message that does not come makes the end a failure", "[unit]") {
    const Pair pair;
    pair.b.mpi->expected = 1;
    const auto begin = std::chrono::steady_clock::now();
    pair.b.plane->close(false);
    CHECK(std::chrono::steady_clock::now() - begin >= 200ms);
    CHECK(pair.b.mpi->diary.empty());
}

TEST_CASE("sent messages leave before the end; otherwise the end is a failure", "[unit]") {
    const Pair pair;
    static_cast<void>(pair.a.transport().send(1, Channel::data, pattern(3, 1)).value());
    SECTION("it leaves") {
        pair.a.plane->close(false);
        CHECK(pair.a.mpi->diary == "release free ");
        CHECK(pair.a.mpi->requests() == 0);
    }
    SECTION("it does not") {
        pair.a.mpi->delivers = false;
        const auto begin = std::chrono::steady_clock::now();
        pair.a.plane->close(false);
        CHECK(std::chrono::steady_clock::now() - begin >= 200ms);
        CHECK(pair.a.mpi->diary.empty());
        CHECK(pair.a.mpi->requests() == 1);
    }
    SECTION("nobody waits for it after a failure") {
        pair.a.mpi->delivers = false;
        pair.a.plane->close(true);
        CHECK(pair.a.mpi->diary.empty());
        CHECK(pair.a.mpi->requests() == 1);
    }
}

}  // namespace
}  // namespace rueda::collectives
