// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The Rueda authors
#include "collectives/host/sockets/descriptor_exchange.hpp"

#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/statvfs.h>
#include <sys/wait.h>
#include <unistd.h>

#include <catch2/catch.hpp>
#include <csignal>
#include <cstring>
#include <filesystem>
#include <set>

#include "collectives/host/sockets/descriptor_server.hpp"
#include "collectives/host/sockets/socket_control_plane.hpp"
#include "tests/collectives/plane_checks.hpp"
#include "tests/collectives/processes.hpp"
#include "tests/support/ranks/thread_control_plane.hpp"
#include "tests/support/sanitized.hpp"

namespace rueda::collectives {
namespace {

using tests::outcome;
using namespace std::chrono_literals;

constexpr std::size_t kBytes = 1 << 16;
constexpr DescriptorWays kNone{false, false, false, false};

base::UniqueFd new_memory(std::size_t bytes = kBytes) {
    base::UniqueFd memory(::memfd_create("rueda-test", MFD_CLOEXEC));
    return ::ftruncate(memory.value(), static_cast<off_t>(bytes)) == 0 ? std::move(memory) : base::UniqueFd();
}

/// Each rank writes its number + 1 into its own byte of the shared memory, and then reads the other ranks' bytes.
std::string check_shared(ControlPlane& plane, int fd) {
    struct stat facts {};
    if (::fstat(fd, &facts) != 0 || facts.st_size != static_cast<off_t>(kBytes)) {
        return fmt::format("the object has {} bytes", facts.st_size);
    }
    if ((::fcntl(fd, F_GETFD) & FD_CLOEXEC) == 0) {
        return "the descriptor survives an exec";
    }
    void* const address = ::mmap(nullptr, kBytes, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
    if (address == MAP_FAILED) {
        return "mmap failed";
    }
    auto* const bytes = static_cast<unsigned char*>(address);
    bytes[plane.rank() * 64] = static_cast<unsigned char>(plane.rank() + 1);
    std::string result = outcome(plane.barrier());
    for (int r = 0; r < plane.size() && result == "ok"; ++r) {
        if (bytes[r * 64] != r + 1) {
            result = fmt::format("rank {} is not seen", r);
        }
    }
    ::munmap(address, kBytes);
    return result;
}

/// Runs the whole exchange on one rank. `given` is the file descriptor that the leader passes to the other ranks.
std::string share(
    ControlPlane& plane, const DescriptorWays& ways, int given, const std::function<void(int)>& prepare = [](int) {}) {
    auto group = find_local_group(plane);
    if (!group.is_ok()) {
        return outcome(group.status());
    }
    prepare(plane.rank());
    auto shared = share_descriptor(plane, group.value(), given, 10s, ways);
    return shared.is_ok() ? check_shared(plane, shared.value().value()) : outcome(shared.status());
}

std::vector<std::string> share_among_processes(
    int size, const DescriptorWays& ways, const std::function<void(int)>& prepare = [](int) {}) {
    const std::string name = tests::fresh_socket_name();
    return tests::run_processes(size, [&](int rank) -> std::string {
        SocketControlPlaneOptions options;
        options.rendezvous = name;
        options.rank = rank;
        options.size = size;
        auto plane = open_socket_control_plane(options);
        if (!plane.is_ok()) {
            return outcome(plane.status());
        }
        const base::UniqueFd memory = rank == 0 ? new_memory() : base::UniqueFd();
        return share(*plane.value(), ways, memory.value(), prepare);
    });
}

std::vector<std::string> ok(int count) { return std::vector<std::string>(static_cast<std::size_t>(count), "ok"); }

std::set<std::string> shm_objects() {
    std::set<std::string> names;
    for (const auto& entry : std::filesystem::directory_iterator("/dev/shm")) {
        if (entry.path().filename().string().starts_with("rueda-")) {
            names.insert(entry.path().filename().string());
        }
    }
    return names;
}

DescriptorWays only(bool DescriptorWays::*way) {
    DescriptorWays ways = kNone;
    ways.*way = true;
    return ways;
}

TEST_CASE("processes share memory by each of the ways alone, and by all", "[processes]") {
    const auto before = shm_objects();
    for (const int size : {1, 2, 5}) {
        CAPTURE(size);
        CHECK(share_among_processes(size, {}) == ok(size));
        CHECK(share_among_processes(size, only(&DescriptorWays::socket)) == ok(size));
        CHECK(share_among_processes(size, only(&DescriptorWays::proc)) == ok(size));
        CHECK(share_among_processes(size, only(&DescriptorWays::shm)) == ok(size));
    }
    CHECK(shm_objects() == before);
}

TEST_CASE("threads share memory by each of the ways", "[threads]") {
    for (const DescriptorWays& ways :
         {DescriptorWays{}, only(&DescriptorWays::same_process), only(&DescriptorWays::socket),
          only(&DescriptorWays::proc), only(&DescriptorWays::shm)}) {
        const auto planes = make_thread_control_planes(4);
        const base::UniqueFd memory = new_memory();
        CHECK(tests::run_threads(4, [&](int rank) {
                  return share(*planes[static_cast<std::size_t>(rank)], ways, rank == 0 ? memory.value() : -1);
              }) == ok(4));
    }
}

TEST_CASE("if no way of sharing works, all ranks get the same message with the reason of each way", "[processes]") {
    const auto ends = share_among_processes(3, kNone);
    CHECK_THAT(ends[0], Catch::StartsWith("Unsupported: rank 1 cannot share memory with the ranks of its host"));
    for (const char* const way : {"socket: ", "/proc: "}) {
        CHECK_THAT(ends[0], Catch::Contains(way));
    }
    CHECK(ends[1] == ends[0]);
    CHECK(ends[2] == ends[0]);
}

TEST_CASE("if one rank has no free descriptor, all ranks fail, and the message names the rank and the reason",
          "[processes]") {
    if (tests::kAddressSanitized) {
        WARN("the sanitizer looks at memory through pipes, and ends a process that can have none");
        return;
    }
    const auto ends = share_among_processes(3, {}, [](int rank) {
        if (rank == 2) {
            const rlimit none{static_cast<rlim_t>(tests::open_descriptors().back() + 1), RLIM_INFINITY};
            ::setrlimit(RLIMIT_NOFILE, &none);
            while (base::duplicate(0).release() >= 0) {
            }
        }
    });
    CHECK_THAT(ends[0], Catch::StartsWith("Unsupported: rank 2 cannot share memory") &&
                            Catch::Contains("socket: connect failed: Too many open files") &&
                            Catch::Contains("/proc: open of /proc/") && Catch::Contains("shm_open: shm_open failed"));
    CHECK(ends[1] == ends[0]);
    CHECK(ends[2] == ends[0]);
}

TEST_CASE("a leader without memory fails all ranks", "[threads]") {
    const auto planes = make_thread_control_planes(3);
    const auto ends =
        tests::run_threads(3, [&](int rank) { return share(*planes[static_cast<std::size_t>(rank)], {}, -1); });
    CHECK(ends[0] ==
          "Unsupported: rank 0 cannot share memory with the ranks of its host (memory: the leader has no shared memory "
          "to give)");
    CHECK(ends == std::vector<std::string>(3, ends[0]));
}

TEST_CASE("too little room for an shm object is an error, and leaves no object", "[processes]") {
    struct statvfs room {};
    REQUIRE(::statvfs("/dev/shm", &room) == 0);
    const auto before = shm_objects();
    const auto planes = make_thread_control_planes(2);
    const base::UniqueFd memory = new_memory(room.f_blocks * room.f_frsize + (std::size_t{1} << 20));
    const auto ends = tests::run_threads(2, [&](int rank) {
        return share(*planes[static_cast<std::size_t>(rank)], only(&DescriptorWays::shm),
                     rank == 0 ? memory.value() : -1);
    });
    CHECK_THAT(ends[0], Catch::StartsWith("Unsupported: rank 0 cannot share memory") &&
                            Catch::Contains("in /dev/shm failed: No space left on device"));
    CHECK(ends[1] == ends[0]);
    CHECK(shm_objects() == before);
}

TEST_CASE("ranks of several hosts each get their own leader's memory", "[threads]") {
    // The grouping pretends that there are two hosts with the ranks {0, 2} and {1, 3}. The exchange of descriptors is
    // real.
    const auto planes = make_thread_control_planes(4);
    const base::UniqueFd memories[2] = {new_memory(), new_memory()};
    const auto inode = [](int fd) {
        struct stat facts {};
        return ::fstat(fd, &facts) == 0 ? facts.st_ino : 0;
    };
    const auto ends = tests::run_threads(4, [&](int rank) {
        std::vector<RankFacts> facts(4, own_facts());
        facts[1].hostname = facts[3].hostname = "another";
        const LocalGroup group = group_by_host(rank, facts);
        const auto shared = share_descriptor(*planes[static_cast<std::size_t>(rank)], group,
                                             group.is_leader() ? memories[rank].value() : -1, 10s);
        return shared.is_ok() ? fmt::to_string(inode(shared.value().value())) : outcome(shared.status());
    });
    const std::string a = fmt::to_string(inode(memories[0].value()));
    const std::string b = fmt::to_string(inode(memories[1].value()));
    CHECK(a != b);
    CHECK(ends == std::vector<std::string>{a, b, a, b});
}

TEST_CASE("a descriptor server gives nothing to another user", "[processes]") {
    if (::geteuid() != 0) {
        WARN("not root: a second user cannot be played");
        return;
    }
    const std::string name = tests::fresh_socket_name();
    const base::UniqueFd memory = new_memory();
    const auto server = DescriptorServer::start(name, memory.value());
    REQUIRE(server.is_ok());
    const int pid = ::getpid();
    const auto ends = tests::run_processes(2, [&](int child) -> std::string {
        if (child == 1 && ::seteuid(65534) != 0) {
            return "seteuid failed";
        }
        if (child == 1) {
            // This process plays an attacker: it connects without checking which process listens.
            const ConnectAttempt attempt = connect_unix(name);
            char byte = 0;
            return attempt.error == 0 && wait_for_events(attempt.socket.value(), 1, deadline_in(10s)).value() &&
                           ::read(attempt.socket.value(), &byte, 1) <= 0
                       ? "refused"
                       : "let in";
        }
        return outcome(fetch_descriptor(name, pid, deadline_in(10s)).status());
    });
    CHECK(ends == std::vector<std::string>{"ok", "refused"});
}

TEST_CASE("a descriptor is taken only from the leader's process", "[unit]") {
    const std::string name = tests::fresh_socket_name();
    const base::UniqueFd memory = new_memory();
    const auto server = DescriptorServer::start(name, memory.value());
    REQUIRE(server.is_ok());
    const auto fetched = fetch_descriptor(name, ::getpid() + 1, deadline_in(10s));
    CHECK_THAT(fetched.status().message(), Catch::Contains(fmt::format("process {} listens there", ::getpid())));
    CHECK(fetch_descriptor(name + "x", ::getpid(), deadline_in(10s)).status().message() ==
          "connect failed: Connection refused (errno 111)");
}

TEST_CASE("a server that does not answer is given up at the deadline", "[unit]") {
    const std::string name = tests::fresh_socket_name();
    const auto silent = listen_unix(name, 1);
    REQUIRE(silent.is_ok());
    const auto begin = std::chrono::steady_clock::now();
    CHECK(fetch_descriptor(name, ::getpid(), deadline_in(100ms)).status().code() == ErrorCode::timeout);
    CHECK(std::chrono::steady_clock::now() - begin >= 100ms);
}

TEST_CASE("tokens are 128 bits and never the same", "[unit]") {
    std::set<std::string> tokens;
    for (int i = 0; i < 1000; ++i) {
        const auto token = random_token();
        REQUIRE(token.is_ok());
        CHECK(token.value().size() == 32);
        tokens.insert(token.value());
    }
    CHECK(tokens.size() == 1000);
}

TEST_CASE("a descriptor has one owner", "[unit]") {
    const auto is_open = [](int fd) { return ::fcntl(fd, F_GETFD) >= 0; };
    base::UniqueFd a(::memfd_create("rueda-test", MFD_CLOEXEC));
    const int number = a.value();
    base::UniqueFd b(std::move(a));
    CHECK(b.value() == number);
    a = std::move(b);
    CHECK(a.value() == number);
    CHECK_FALSE(b.is_open());
    const base::UniqueFd copy = base::duplicate(number);
    CHECK(copy.value() != number);
    a.reset();
    CHECK_FALSE(is_open(number));
    CHECK(is_open(copy.value()));
    base::UniqueFd c = base::duplicate(copy.value());
    const int released = c.release();
    CHECK_FALSE(c.is_open());
    CHECK(is_open(released));
    CHECK(::close(released) == 0);
}

}  // namespace
}  // namespace rueda::collectives
