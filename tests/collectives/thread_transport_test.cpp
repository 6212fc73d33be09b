// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The Rueda authors
#include "tests/support/ranks/thread_transport.hpp"

#include <catch2/catch.hpp>

#include "collectives/single_control_plane.hpp"
#include "tests/collectives/plane_checks.hpp"
#include "tests/collectives/processes.hpp"
#include "tests/collectives/transport_checks.hpp"
#include "tests/support/ranks/thread_control_plane.hpp"

namespace rueda::collectives {
namespace {

using tests::outcome;
using Channel = Transport::Channel;

TEST_CASE("threads have messages for each other with their control planes", "[threads]") {
    for (int size = 2; size <= 4; ++size) {
        const auto planes = make_thread_control_planes(size);
        const auto ends = tests::run_threads(size, [&](int rank) {
            Transport& transport = *planes[static_cast<std::size_t>(rank)]->transport();
            return tests::exercise_transport(transport, rank, size, 200'000);
        });
        CHECK(ends == std::vector<std::string>(static_cast<std::size_t>(size), "ok"));
    }
}

TEST_CASE("a process alone has nobody to send to", "[unit]") { CHECK(SingleControlPlane().transport() == nullptr); }

TEST_CASE("nothing arrives from a rank, or at one, whose cable was pulled", "[unit]") {
    const auto planes = make_thread_control_planes(3);
    Transport& a = *planes[0]->transport();
    Transport& b = *planes[1]->transport();
    cut_thread_transport(*planes[0]->transport(), 2);
    Bytes room(4);
    const auto from_cut = a.receive(2, Channel::data, room).value();
    const auto to_cut = planes[2]->transport()->receive(0, Channel::data, room).value();
    const auto whole = b.receive(0, Channel::data, room).value();
    for (const auto& [from, to] : {std::pair{2, 0}, std::pair{0, 2}, std::pair{0, 1}}) {
        Transport& transport = *planes[static_cast<std::size_t>(from)]->transport();
        CHECK(transport.test(transport.send(to, Channel::data, Bytes(3)).value()).value() == 3U);
    }
    CHECK_FALSE(a.test(from_cut).value().has_value());
    CHECK_FALSE(planes[2]->transport()->test(to_cut).value().has_value());
    CHECK(b.test(whole).value() == 3U);
}

TEST_CASE("threads fail as MPI does: too long a message, and after an abort", "[unit]") {
    const auto planes = make_thread_control_planes(2);
    Transport& a = *planes[0]->transport();
    Transport& b = *planes[1]->transport();
    Bytes room(2);
    const auto ticket = b.receive(0, Channel::data, room).value();
    static_cast<void>(a.send(1, Channel::data, Bytes(3)).value());
    CHECK(outcome(b.test(ticket).status()) == "Aborted: rank 0 sent 3 bytes where rank 1 has room for 2");
    a.abandon();
    CHECK(outcome(a.send(1, Channel::data, {}).status()) == "Aborted: the transport of rank 0 was abandoned");
}

}  // namespace
}  // namespace rueda::collectives
