// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The Rueda authors
#include "collectives/local_group.hpp"

#include <unistd.h>

#include <catch2/catch.hpp>

#include "collectives/single_control_plane.hpp"
#include "tests/collectives/processes.hpp"
#include "tests/support/ranks/thread_control_plane.hpp"

namespace rueda::collectives {
namespace {

RankFacts on_host(const std::string& name, int pid) {
    RankFacts facts;
    facts.hostname = name;
    facts.boot_id = "boot-of-" + name;
    facts.uid = 1000;
    facts.pid_namespace = 11;
    facts.ipc_namespace = 12;
    facts.pid = pid;
    return facts;
}

TEST_CASE("ranks are grouped by host, and numbered within and across hosts", "[unit]") {
    // Ranks 0, 2 and 5 are on host a, ranks 1 and 4 on host b, and rank 3 on host c.
    const std::vector<RankFacts> facts{on_host("a", 1), on_host("b", 2), on_host("a", 3),
                                       on_host("c", 4), on_host("b", 5), on_host("a", 6)};
    struct Expected {
        std::vector<int> members;
        int local_rank, cross_rank, cross_size, host_index;
    };
    const std::vector<Expected> expected{{{0, 2, 5}, 0, 0, 3, 0}, {{1, 4}, 0, 1, 3, 1}, {{0, 2, 5}, 1, 0, 2, 0},
                                         {{3}, 0, 2, 3, 2},       {{1, 4}, 1, 1, 2, 1}, {{0, 2, 5}, 2, 0, 1, 0}};
    for (int rank = 0; rank < 6; ++rank) {
        CAPTURE(rank);
        const LocalGroup group = group_by_host(rank, facts);
        const Expected& want = expected[static_cast<std::size_t>(rank)];
        CHECK(group.rank == rank);
        CHECK(group.size == 6);
        CHECK(group.members == want.members);
        CHECK(group.local_rank == want.local_rank);
        CHECK(group.local_size == static_cast<int>(want.members.size()));
        CHECK(group.cross_rank == want.cross_rank);
        CHECK(group.cross_size == want.cross_size);
        CHECK(group.host_index == want.host_index);
        CHECK(group.host_count == 3);
        CHECK(group.host_of == std::vector<int>{0, 1, 0, 2, 1, 0});
        CHECK(group.host_names == std::vector<std::string>{"a", "b", "c"});
        CHECK(group.leader() == want.members.front());
        CHECK(group.is_leader() == (rank == want.members.front()));
        CHECK_FALSE(group.is_homogeneous());
    }
}

TEST_CASE("hosts are alike where each has as many ranks", "[unit]") {
    const RankFacts a = on_host("a", 1);
    const RankFacts b = on_host("b", 2);
    CHECK(group_by_host(0, {a}).is_homogeneous());
    CHECK(group_by_host(1, {a, a}).is_homogeneous());
    CHECK(group_by_host(3, {a, b, b, a}).is_homogeneous());
    CHECK_FALSE(group_by_host(1, {a, b, a}).is_homogeneous());
}

TEST_CASE("whatever makes memory unshareable makes another host", "[unit]") {
    const RankFacts here = on_host("a", 1);
    const auto host_count = [&](auto change) {
        RankFacts other = on_host("a", 2);
        change(other);
        return group_by_host(0, {here, other}).host_count;
    };
    CHECK(host_count([](RankFacts&) {}) == 1);
    CHECK(host_count([](RankFacts& f) { f.boot_id = "another boot"; }) == 2);
    CHECK(host_count([](RankFacts& f) { f.uid = 1001; }) == 2);
    CHECK(host_count([](RankFacts& f) { f.pid_namespace = 99; }) == 2);
    CHECK(host_count([](RankFacts& f) { f.ipc_namespace = 99; }) == 2);
    RankFacts other = on_host("a", 2);
    other.uid = 1001;
    const LocalGroup group = group_by_host(0, {here, other});
    CHECK(group.host_names[0] != group.host_names[1]);
    CHECK_THAT(group.host_names[1], Catch::Contains("user 1001"));
}

TEST_CASE("facts survive their encoding, and damaged ones are refused", "[unit]") {
    const RankFacts facts = own_facts();
    CHECK(facts.pid == ::getpid());
    CHECK(facts.uid == ::geteuid());
    CHECK_FALSE(facts.hostname.empty());
    const Bytes bytes = encode_facts(facts);
    const auto parsed = parse_facts(bytes);
    REQUIRE(parsed.is_ok());
    CHECK(parsed.value().hostname == facts.hostname);
    CHECK(parsed.value().boot_id == facts.boot_id);
    CHECK(parsed.value().uid == facts.uid);
    CHECK(parsed.value().pid_namespace == facts.pid_namespace);
    CHECK(parsed.value().ipc_namespace == facts.ipc_namespace);
    CHECK(parsed.value().pid == facts.pid);

    for (std::size_t length = 0; length < bytes.size(); ++length) {
        CHECK_FALSE(parse_facts(std::span(bytes).first(length)).is_ok());
    }
    Bytes longer = bytes;
    longer.push_back(std::byte{0});
    CHECK_FALSE(parse_facts(longer).is_ok());
    Bytes endless = bytes;
    endless[0] = endless[1] = endless[2] = endless[3] = std::byte{0xff};  // a huge length of the host name
    CHECK_FALSE(parse_facts(endless).is_ok());
    RankFacts no_pid = facts;
    no_pid.pid = 0;
    CHECK_FALSE(parse_facts(encode_facts(no_pid)).is_ok());
}

TEST_CASE("ranks of one machine that are told different names are on different hosts", "[unit]") {
    CHECK(own_facts("box-7").hostname == "box-7");
    const LocalGroup group = group_by_host(2, {own_facts("b"), own_facts("a"), own_facts("b")});
    CHECK(group.host_of == std::vector<int>{0, 1, 0});
    CHECK(group.host_names == std::vector<std::string>{"b", "a"});
    CHECK(group.local_rank == 1);

    SingleControlPlane plane;
    CHECK(find_local_group(plane, "box-7").value().host_names == std::vector<std::string>{"box-7"});
}

TEST_CASE("text of other processes cannot break a line", "[unit]") {
    RankFacts facts = on_host("a\nb\x1b[31m", 5);
    const auto parsed = parse_facts(encode_facts(facts));
    REQUIRE(parsed.is_ok());
    CHECK(parsed.value().hostname == "a?b?[31m");
}

TEST_CASE("a process alone is its own host", "[unit]") {
    SingleControlPlane plane;
    const auto group = find_local_group(plane);
    REQUIRE(group.is_ok());
    CHECK(group.value().members == std::vector<int>{0});
    CHECK(group.value().cross_size == 1);
}

TEST_CASE("ranks that are threads share a host", "[threads]") {
    const auto planes = make_thread_control_planes(4);
    const auto ends = tests::run_threads(4, [&](int rank) {
        const auto group = find_local_group(*planes[static_cast<std::size_t>(rank)]);
        if (!group.is_ok()) {
            return group.status().message();
        }
        return fmt::format("{} of {}, {} of {}", group.value().local_rank, group.value().local_size,
                           group.value().cross_rank, group.value().cross_size);
    });
    CHECK(ends == std::vector<std::string>{"0 of 4, 0 of 1", "1 of 4, 0 of 1", "2 of 4, 0 of 1", "3 of 4, 0 of 1"});
}

TEST_CASE("one damaged description fails the grouping, naming the rank", "[threads]") {
    const auto planes = make_thread_control_planes(2);
    const auto ends = tests::run_threads(2, [&](int rank) {
        ControlPlane& plane = *planes[static_cast<std::size_t>(rank)];
        if (rank == 1) {
            return plane.allgather({}).is_ok() ? std::string("ok") : std::string("failed");
        }
        return find_local_group(plane).status().message();
    });
    CHECK_THAT(ends[0], Catch::StartsWith("rank 1: the description of its host is damaged"));
}

}  // namespace
}  // namespace rueda::collectives
