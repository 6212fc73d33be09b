// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The Rueda authors
// Tests a rendezvous with a random part. Another user must not be able to keep the ranks from finding each other.
#include "collectives/host/sockets/random_name.hpp"

#include <sys/eventfd.h>
#include <unistd.h>

#include <algorithm>
#include <catch2/catch.hpp>
#include <cerrno>
#include <chrono>
#include <cstdint>
#include <sstream>
#include <string>
#include <utility>
#include <vector>

#include "collectives/host/sockets/socket_control_plane.hpp"
#include "collectives/host/sockets/unix_socket.hpp"
#include "tests/collectives/plane_checks.hpp"
#include "tests/collectives/processes.hpp"

namespace rueda::collectives {
namespace {

using namespace std::chrono_literals;

std::string fresh_pattern() { return tests::fresh_socket_name() + "-*"; }

/// Opens a control plane at the rendezvous, and returns the result of a barrier.
std::string meet(const std::string& rendezvous, int rank, int size, std::chrono::milliseconds timeout = 20s) {
    SocketControlPlaneOptions options;
    options.rendezvous = rendezvous;
    options.rank = rank;
    options.size = size;
    options.start_timeout = timeout;
    options.operation_timeout = timeout;
    auto plane = open_socket_control_plane(options);
    if (!plane.is_ok()) {
        return tests::outcome(plane.status());
    }
    std::string result = tests::outcome(plane.value()->barrier());
    plane.value()->close(result != "ok");
    return result;
}

std::vector<std::string> names_of(const std::string& pattern) {
    std::vector<std::string> names = listening_names();
    std::erase_if(names,
                  [&](const std::string& name) { return !name.starts_with(pattern.substr(0, pattern.size() - 1)); });
    return names;
}

TEST_CASE("only an abstract name that ends with an asterisk has a random part", "[unit]") {
    CHECK(has_random_part("@job-*"));
    CHECK(has_random_part("@*"));
    CHECK_FALSE(has_random_part("@job"));
    CHECK_FALSE(has_random_part("@*job"));
    CHECK_FALSE(has_random_part("/tmp/job-*"));
}

TEST_CASE("rank 0 makes another name every time", "[unit]") {
    const std::string pattern = fresh_pattern();
    const auto one = make_random_name(pattern);
    const auto other = make_random_name(pattern);
    REQUIRE(one.is_ok());
    REQUIRE(other.is_ok());
    CHECK(one.value() != other.value());
    CHECK(one.value().size() == pattern.size() + kRandomPartGrowth);
    CHECK(one.value().starts_with(pattern.substr(0, pattern.size() - 1)));
    CHECK(connect_to_random_name(pattern).error == ENOENT);
    const auto listener = listen_unix(one.value(), 4);
    REQUIRE(listener.is_ok());
    CHECK(connect_to_random_name(pattern).error == 0);
    CHECK_FALSE(make_random_name(pattern).is_ok());
}

TEST_CASE("names of another form are passed over", "[unit]") {
    const std::string pattern = fresh_pattern();
    const std::string fixed = pattern.substr(0, pattern.size() - 1);
    std::vector<base::UniqueFd> listeners;
    for (const std::string& part : {std::string(), std::string("0"), std::string(31, '0'), std::string(33, '0'),
                                    std::string(31, '0') + "A", std::string(31, '0') + "*", std::string(32, ' ')}) {
        auto listener = listen_unix(fixed + part, 4);
        REQUIRE(listener.is_ok());
        listeners.push_back(std::move(listener).value());
    }
    CHECK(connect_to_random_name(pattern).error == ENOENT);
}

TEST_CASE("the list of the kernel is parsed: sockets that have a name and are not connected", "[unit]") {
    std::istringstream list(
        "Num       RefCount Protocol Flags    Type St Inode Path\n"
        "0000000000000000: 00000002 00000000 00010000 0001 01 4711 @rueda-1\n"
        "0000000000000000: 00000003 00000000 00000000 0001 03 4712 @rueda-2\n"
        "0000000000000000: 00000002 00000000 00000000 0002 01 4713 /run/a name\n"
        "0000000000000000: 00000002 00000000 00010000 0001 01 4714\n"
        "0000000000000000: 00000002 00000000 00010000 0001 01\n"
        "0000000000000000: 00000002 00000000 00010000 0001 01 4715 @cut");
    CHECK(parse_unix_sockets(list) ==
          std::vector<UnixSocketLine>{{"@rueda-1", true}, {"/run/a name", false}, {"@cut", true}});
}

TEST_CASE("another user's name with a line break cannot stand for another socket", "[processes]") {
    // The kernel lists sockets in lines of text. The name of this socket contains a line break, and after it a text
    // in the form of such a line. If this text counted as a line, it would describe a listener whose name matches the
    // pattern.
    const std::string pattern = fresh_pattern();
    const std::string right = pattern.substr(0, pattern.size() - 1) + std::string(32, 'a');
    const std::string line = "\n0: 2 0 00010000 1 01 1 " + right;
    REQUIRE(line.size() < 100);
    const auto listener = listen_unix("@x" + line, 4);
    REQUIRE(listener.is_ok());
    CHECK(connect_to_random_name(pattern).error == ENOENT);
    CHECK(meet(pattern, 0, 1) == "ok");
}

TEST_CASE("ranks meet at a name with a random part, and the name is free afterwards", "[processes]") {
    const std::string pattern = fresh_pattern();
    for (int job = 0; job < 3; ++job) {
        CHECK(tests::run_processes(3, [&](int rank) { return meet(pattern, rank, 3); }) ==
              std::vector<std::string>(3, "ok"));
        CHECK(names_of(pattern).empty());
    }
}

TEST_CASE("a second job with the same rendezvous is refused", "[processes]") {
    const std::string pattern = fresh_pattern();
    // rank 1 of the first job waits until the second job has written to this event
    const base::UniqueFd refused(::eventfd(0, EFD_CLOEXEC));
    REQUIRE(refused.is_open());
    const auto ends = tests::run_processes(3, [&](int process) -> std::string {
        std::uint64_t count = 1;
        if (process == 1 && ::read(refused.value(), &count, sizeof count) != sizeof count) {
            return "read failed";
        }
        if (process < 2) {
            return meet(pattern, process, 2);
        }
        for (int i = 0; i < 20'000 && names_of(pattern).empty(); ++i) {
            ::usleep(1000);
        }
        const std::string end = meet(pattern, 0, 2);
        return ::write(refused.value(), &count, sizeof count) == sizeof count ? end : "write failed";
    });
    CHECK(ends[0] == "ok");
    CHECK(ends[1] == "ok");
    CHECK_THAT(ends[2], Catch::StartsWith("InvalidArgument: rendezvous") && Catch::Contains("in use already"));
}

TEST_CASE("a rendezvous that is too long with its random part is refused on all ranks", "[processes]") {
    const std::string pattern = "@" + std::string(80, 'x') + "*";
    const auto ends = tests::run_processes(2, [&](int rank) { return meet(pattern, rank, 2); });
    for (const std::string& end : ends) {
        CHECK_THAT(end, Catch::StartsWith("InvalidArgument: rendezvous") && Catch::Contains("has 113 bytes"));
    }
}

TEST_CASE("another user cannot prevent the rendezvous of the ranks at a name with a random part", "[processes]") {
    if (::geteuid() != 0) {
        WARN("not root: a second user cannot be played");
        return;
    }
    const std::string pattern = fresh_pattern();
    const std::string fixed = pattern.substr(0, pattern.size() - 1);
    // The other user listens at names that match the pattern, and at the name without its random part.
    std::vector<base::UniqueFd> taken;
    REQUIRE(::seteuid(65534) == 0);
    for (const std::string& name : {fixed, pattern, fixed + std::string(32, '0'), fixed + std::string(32, 'f')}) {
        auto listener = listen_unix(name, 16);
        if (listener.is_ok()) {
            taken.push_back(std::move(listener).value());
        }
    }
    REQUIRE(::seteuid(0) == 0);
    REQUIRE(taken.size() == 4);
    CHECK(tests::run_processes(3, [&](int rank) { return meet(pattern, rank, 3); }) ==
          std::vector<std::string>(3, "ok"));
}

}  // namespace
}  // namespace rueda::collectives
