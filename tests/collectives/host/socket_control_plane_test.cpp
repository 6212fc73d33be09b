// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The Rueda authors
#include "collectives/host/sockets/socket_control_plane.hpp"

#include <poll.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <unistd.h>

#include <algorithm>
#include <catch2/catch.hpp>
#include <csignal>
#include <thread>

#include "collectives/host/sockets/frame_stream.hpp"
#include "collectives/host/sockets/socket_messages.hpp"
#include "collectives/host/sockets/unix_socket.hpp"
#include "tests/collectives/plane_checks.hpp"
#include "tests/collectives/processes.hpp"

namespace rueda::collectives {
namespace {

using tests::outcome;
using tests::run_processes;
using namespace std::chrono_literals;

using Plane = std::unique_ptr<ControlPlane>;

SocketControlPlaneOptions options_for(const std::string& name, int rank, int size,
                                      std::chrono::milliseconds timeout = 20s) {
    SocketControlPlaneOptions options;
    options.rendezvous = name;
    options.rank = rank;
    options.size = size;
    options.start_timeout = timeout;
    options.operation_timeout = timeout;
    return options;
}

/// Opens a control plane and returns the result of `body(plane)`, or the reason why the plane could not be opened.
template <class Body>
std::string with_plane(const SocketControlPlaneOptions& options, Body body) {
    auto plane = open_socket_control_plane(options);
    if (!plane.is_ok()) {
        return outcome(plane.status());
    }
    const std::string result = body(*plane.value());
    plane.value()->close(result != "ok");
    return result;
}

std::string barrier_of(ControlPlane& plane) { return outcome(plane.barrier()); }

/// Returns a connection to rank 0 through which the test can send any bytes. Waits until rank 0 listens.
base::UniqueFd raw_connection(const std::string& name) {
    for (int attempt = 0; attempt < 2000; ++attempt) {
        ConnectAttempt connected = connect_unix(name);
        if (connected.error == 0) {
            return std::move(connected.socket);
        }
        std::this_thread::sleep_for(5ms);
    }
    throw std::runtime_error("nobody listens");
}

void say(const base::UniqueFd& socket, const Bytes& bytes) {
    if (!send_bytes(socket.value(), bytes, deadline_in(10s), false).is_ok()) {
        throw std::runtime_error("cannot send");
    }
}

/// Returns the failure with which rank 0 answers.
std::string hear_refusal(const base::UniqueFd& own) {
    FrameSocket socket(base::UniqueFd(::dup(own.value())));
    FrameReceiver receiver;
    while (true) {
        auto complete = receiver.advance(socket);
        if (!complete.is_ok()) {
            return outcome(complete.status());
        }
        if (complete.value()) {
            const Frame frame = receiver.take();
            return frame.header.kind == FrameKind::failure ? outcome(parse_failure(frame.body))
                                                           : name_of(frame.header.kind);
        }
        if (!wait_for_events(socket.fd(), POLLIN, deadline_in(10s)).value()) {
            return "nothing heard";
        }
    }
}

std::vector<std::string> all_ok(int count) { return std::vector<std::string>(static_cast<std::size_t>(count), "ok"); }

TEST_CASE("ranks meet by an abstract socket and exchange messages", "[processes]") {
    for (int size = 1; size <= 8; ++size) {
        CAPTURE(size);
        const std::string name = tests::fresh_socket_name();
        CHECK(run_processes(size, [&](int rank) {
                  return with_plane(options_for(name, rank, size),
                                    [&](ControlPlane& plane) { return tests::exercise(plane, rank, size, 300'000); });
              }) == all_ok(size));
    }
}

TEST_CASE("if one rank knows that the start must fail, it ends at once on every rank that waits", "[processes]") {
    const std::string name = tests::fresh_socket_name();
    const auto ends = run_processes(3, [&](int rank) -> std::string {
        if (rank == 2) {
            return "does not come";
        }
        SocketControlPlaneOptions options = options_for(name, rank, 3);
        const auto begin = std::chrono::steady_clock::now();
        options.interruption = [&](int own, int size) {
            const bool is_time = std::chrono::steady_clock::now() > begin + 100ms;
            return is_time ? failure(ErrorCode::aborted, "rank 2 is gone, says {} of {}", own, size) : Status();
        };
        const std::string end = with_plane(options, barrier_of);
        const bool in_time = std::chrono::steady_clock::now() < begin + 5s;
        return in_time ? end : "late";
    });
    // The first rank that fails tells the reason to the other rank.
    CHECK(ends[0].find("Aborted") != std::string::npos);
    CHECK(ends[1].find("Aborted") != std::string::npos);
    CHECK((ends[0] + ends[1]).find("rank 2 is gone, says") != std::string::npos);
}

TEST_CASE("if one rank knows that an operation must fail, it ends on every rank that waits", "[processes]") {
    const std::string name = tests::fresh_socket_name();
    const auto ends = run_processes(2, [&](int rank) {
        SocketControlPlaneOptions options = options_for(name, rank, 2);
        bool is_in_vain = false;
        options.interruption = [&](int, int) { return is_in_vain ? failure(ErrorCode::aborted, "in vain") : Status(); };
        return with_plane(options, [&](ControlPlane& plane) -> std::string {
            if (!plane.barrier().is_ok()) {
                return "the first barrier failed";
            }
            is_in_vain = rank == 0;
            if (rank == 1) {
                std::this_thread::sleep_for(300ms);  // rank 0 gives up while this rank sleeps
            }
            return barrier_of(plane);
        });
    });
    CHECK(ends[0].find("in vain") != std::string::npos);
    CHECK(ends[1].find("in vain") != std::string::npos);
}

TEST_CASE("ranks meet by a path, which is private and gone as soon as all have come", "[processes]") {
    const tests::PrivateFolder folder;
    const std::string path = folder.path() + "/meet";
    const auto ends = run_processes(3, [&](int rank) -> std::string {
        if (rank == 2) {
            struct stat facts {};
            while (::stat(path.c_str(), &facts) != 0) {
                std::this_thread::sleep_for(1ms);
            }
            if ((facts.st_mode & 0777U) != 0600U) {
                return fmt::format("mode {:o}", facts.st_mode);
            }
        }
        return with_plane(options_for(path, rank, 3), [&](ControlPlane& plane) -> std::string {
            if (::access(path.c_str(), F_OK) == 0) {
                return "the path is still there";
            }
            return tests::exercise(plane, rank, 3, 100);
        });
    });
    CHECK(ends == all_ok(3));
    CHECK(folder.entries().empty());
}

TEST_CASE("a folder that others may enter is refused", "[processes]") {
    const tests::PrivateFolder folder;
    REQUIRE(::chmod(folder.path().c_str(), 0755) == 0);
    const auto plane = open_socket_control_plane(options_for(folder.path() + "/meet", 0, 2));
    CHECK(plane.status().code() == ErrorCode::invalid_argument);
    CHECK_THAT(plane.status().message(), Catch::Contains("mode 755") && Catch::Contains("mode 700"));
    CHECK(folder.entries().empty());
}

TEST_CASE("names that cannot be used are refused at once", "[unit]") {
    const auto problem = [](const std::string& name) {
        return open_socket_control_plane(options_for(name, 0, 2)).status();
    };
    for (const std::string& name : {std::string(), std::string("@"), std::string("relative/path"),
                                    "/" + std::string(200, 'x'), "@" + std::string(200, 'x')}) {
        CAPTURE(name);
        CHECK(problem(name).code() == ErrorCode::invalid_argument);
    }
    CHECK(open_socket_control_plane(options_for("@x", 2, 2)).status().code() == ErrorCode::invalid_argument);
    CHECK(open_socket_control_plane(options_for("@x", -1, 2)).status().code() == ErrorCode::invalid_argument);
}

TEST_CASE("ranks may come in any order and late, and meet again under the same name", "[processes]") {
    const std::string name = tests::fresh_socket_name();
    const auto ends = run_processes(4, [&](int rank) {
        std::string result = "ok";
        for (int round = 0; round < 3 && result == "ok"; ++round) {
            // In each round a different rank is late.
            std::this_thread::sleep_for(std::chrono::milliseconds(((rank + round) % 4) * 60));
            result = with_plane(options_for(name, rank, 4),
                                [&](ControlPlane& plane) { return tests::exercise(plane, rank, 4, 100); });
        }
        return result;
    });
    CHECK(ends == all_ok(4));
}

TEST_CASE("ranks that never come are named on all that came", "[processes]") {
    const std::string name = tests::fresh_socket_name();
    const auto ends =
        run_processes(3, [&](int rank) { return with_plane(options_for(name, rank, 5, 1s), barrier_of); });
    const std::string expected =
        fmt::format("Timeout: rank 3, 4 did not come to '{}' within 1 s (RUEDA_START_TIMEOUT)", name);
    CHECK(ends == std::vector<std::string>(3, expected));
}

TEST_CASE("a missing rank 0 is named by the others", "[processes]") {
    const std::string name = tests::fresh_socket_name();
    const auto ends =
        run_processes(2, [&](int child) { return with_plane(options_for(name, child + 1, 3, 200ms), barrier_of); });
    for (const std::string& end : ends) {
        CHECK_THAT(end, Catch::StartsWith(fmt::format("Timeout: rank 0 did not come to '{}' within 0.2 s", name)));
    }
}

TEST_CASE("a failed start leaves no path", "[processes]") {
    const tests::PrivateFolder folder;
    const auto plane = open_socket_control_plane(options_for(folder.path() + "/meet", 0, 2, 100ms));
    CHECK(plane.status().code() == ErrorCode::timeout);
    CHECK(folder.entries().empty());
}

TEST_CASE("the error says that a name is in use", "[unit]") {
    const std::string name = tests::fresh_socket_name();
    const auto other = listen_unix(name, 1);
    REQUIRE(other.is_ok());
    const auto plane = open_socket_control_plane(options_for(name, 0, 2));
    CHECK(plane.status().code() == ErrorCode::invalid_argument);
    CHECK_THAT(plane.status().message(), Catch::Contains("in use already"));
}

TEST_CASE("a rank that dies while the others come ends the start", "[processes]") {
    const std::string name = tests::fresh_socket_name();
    const auto ends = run_processes(3, [&](int rank) -> std::string {
        if (rank == 2) {
            const base::UniqueFd socket = raw_connection(name);
            say(socket, encode_hello({2, 4}));
            // Rank 1 must get an error, even if it is late. It has probably connected before these 200 ms are over. If
            // it comes later, no process listens any more.
            std::this_thread::sleep_for(200ms);
            return "gone";
        }
        return with_plane(options_for(name, rank, 4, 3s), barrier_of);
    });
    CHECK_THAT(ends[0], Catch::StartsWith("Aborted: rank 2 has closed its connection before"));
    CHECK_THAT(ends[0], Catch::Contains("3 had come"));
    CHECK_THAT(ends[1], Catch::StartsWith("Aborted: ") || Catch::StartsWith("Timeout: rank 0 did not come"));
}

TEST_CASE("other processes do not disturb the rendezvous, and learn why they are refused", "[processes]") {
    const std::string name = tests::fresh_socket_name();
    const auto refusal = [&](const Bytes& hello) {
        const base::UniqueFd socket = raw_connection(name);
        say(socket, hello);
        return hear_refusal(socket) + "\n";
    };
    const auto ends = run_processes(2, [&](int rank) -> std::string {
        std::string refusals;
        base::UniqueFd silent;
        if (rank == 1) {
            silent = raw_connection(name);
            say(raw_connection(name), tests::pattern(3, 1));  // this temporary connection is closed at once
            refusals =
                refusal(tests::pattern(kHelloBytes, 1)) + refusal(encode_hello({1, 3})) + refusal(encode_hello({0, 2}));
        }
        const std::string result = with_plane(
            options_for(name, rank, 2), [&](ControlPlane& plane) { return tests::exercise(plane, rank, 2, 100); });
        return rank == 1 ? refusals + hear_refusal(silent) + "\n" + result : result;
    });
    CHECK(ends[0] == "ok");
    CHECK_THAT(ends[1], Catch::StartsWith("InvalidArgument: a process that is no rank of Rueda") &&
                            Catch::Contains("\nInvalidArgument: rank 1 was started for a job of size 3, expected 2") &&
                            Catch::Contains("\nInvalidArgument: rank 0 has connected to rank 0") &&
                            Catch::Contains("\nAborted: has closed its connection") && Catch::EndsWith("\nok"));
}

TEST_CASE("silent connections by the hundred do not keep the ranks out", "[processes]") {
    const std::string name = tests::fresh_socket_name();
    const auto ends = run_processes(2, [&](int rank) -> std::string {
        std::vector<base::UniqueFd> sockets;
        for (int i = 0; i < (rank == 1 ? 300 : 0); ++i) {
            sockets.push_back(raw_connection(name));
        }
        const std::string result = with_plane(options_for(name, rank, 2), barrier_of);
        for (const base::UniqueFd& socket : sockets) {
            if (!hear_refusal(socket).starts_with("Aborted")) {
                return "let in";
            }
        }
        return result;
    });
    CHECK(ends == all_ok(2));
}

TEST_CASE("a rank that comes twice is refused the second time", "[processes]") {
    const std::string name = tests::fresh_socket_name();
    const auto ends = run_processes(2, [&](int child) -> std::string {
        if (child == 0) {
            return with_plane(options_for(name, 0, 3), [](ControlPlane&) { return std::string("ok"); });
        }
        const base::UniqueFd first = raw_connection(name);
        say(first, encode_hello({1, 3}));
        const base::UniqueFd second = raw_connection(name);
        say(second, encode_hello({1, 3}));
        const std::string refusal = hear_refusal(second);
        const base::UniqueFd other = raw_connection(name);
        say(other, encode_hello({2, 3}));
        return fmt::format("{} {}: {}", hear_refusal(first), hear_refusal(other), refusal);
    });
    CHECK(ends[0] == "ok");
    CHECK_THAT(ends[1], Catch::StartsWith("start start: InvalidArgument: rank 1 has come twice"));
}

TEST_CASE("another user is not talked to, on either side", "[processes]") {
    if (::geteuid() != 0) {
        WARN("not root: a second user cannot be played");
        return;
    }
    const std::string name = tests::fresh_socket_name();
    constexpr uid_t kOther = 65534;
    const auto ends = run_processes(2, [&](int rank) -> std::string {
        if (rank == 1 && ::seteuid(kOther) != 0) {
            return "seteuid failed";
        }
        return with_plane(options_for(name, rank, 2, 2s), barrier_of);
    });
    CHECK_THAT(ends[0], Catch::StartsWith("Timeout: rank 1 did not come") &&
                            Catch::Contains("belongs to user 65534, expected 0"));
    CHECK_THAT(ends[1],
               Catch::StartsWith("Unsupported: rendezvous") && Catch::Contains("belongs to user 0, expected 65534"));
}

TEST_CASE("a name that another user has taken is an error at once, on all ranks", "[processes]") {
    if (::geteuid() != 0) {
        WARN("not root: a second user cannot be played");
        return;
    }
    const bool listens = GENERATE(true, false);
    const std::string name = tests::fresh_socket_name();
    base::UniqueFd taken(::socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0));
    sockaddr_un address{};
    address.sun_family = AF_UNIX;
    name.copy(address.sun_path + 1, sizeof address.sun_path - 1, 1);
    const auto length = static_cast<socklen_t>(offsetof(sockaddr_un, sun_path) + name.size());
    constexpr uid_t kOther = 65534;
    REQUIRE(::seteuid(kOther) == 0);  // the socket then belongs to the user kOther
    const bool is_bound = ::bind(taken.value(), reinterpret_cast<const sockaddr*>(&address), length) == 0 &&
                          (!listens || ::listen(taken.value(), 16) == 0);
    REQUIRE(::seteuid(0) == 0);
    REQUIRE(is_bound);
    const auto begin = std::chrono::steady_clock::now();
    const auto ends =
        run_processes(2, [&](int rank) { return with_plane(options_for(name, rank, 2, 60s), barrier_of); });
    CHECK(std::chrono::steady_clock::now() - begin < 30s);
    CHECK_THAT(ends[0], Catch::StartsWith("InvalidArgument: rendezvous") && Catch::Contains("in use already"));
    if (listens) {
        CHECK_THAT(ends[0], Catch::Contains(" of user 65534"));
        CHECK_THAT(ends[1], Catch::StartsWith("Unsupported: rendezvous") &&
                                Catch::Contains("belongs to user 65534, expected 0"));
    } else {
        CHECK_THAT(ends[1], Catch::StartsWith("Unsupported: rendezvous") &&
                                Catch::Contains("taken by a process that does not listen"));
    }
}

TEST_CASE("a connection that outlives its listener does not keep the name taken", "[unit]") {
    const std::string name = tests::fresh_socket_name();
    CHECK_FALSE(is_taken(name));
    Result<base::UniqueFd> listener = listen_unix(name, 1);
    REQUIRE(listener.is_ok());
    CHECK(is_taken(name));
    const ConnectAttempt client = connect_unix(name);
    REQUIRE(client.error == 0);
    const base::UniqueFd accepted(::accept(listener.value().value(), nullptr, nullptr));
    REQUIRE(accepted.is_open());
    // A forked child of an earlier job still has the accepted connection, but no process listens any more.
    listener.value().reset();
    CHECK_FALSE(is_taken(name));
}

TEST_CASE("a rank that dies between operations is named on all others", "[processes]") {
    for (const int victim : {0, 1, 3}) {
        CAPTURE(victim);
        const std::string name = tests::fresh_socket_name();
        const auto ends = run_processes(4, [&](int rank) {
            return with_plane(options_for(name, rank, 4), [&](ControlPlane& plane) {
                if (!plane.barrier().is_ok()) {
                    return std::string("no barrier");
                }
                if (rank == victim) {
                    ::raise(SIGKILL);
                }
                const std::string first = barrier_of(plane);
                return first == barrier_of(plane) ? first : "the second failure differs";
            });
        });
        for (int rank = 0; rank < 4; ++rank) {
            CAPTURE(rank);
            const std::string& end = ends[static_cast<std::size_t>(rank)];
            if (rank == victim) {
                CHECK(end == "killed by signal 9");
            } else {
                CHECK_THAT(
                    end, Catch::StartsWith(fmt::format("Aborted: barrier: rank {} has closed its connection", victim)));
            }
        }
    }
}

TEST_CASE("a rank that dies in the middle of its message is named", "[processes]") {
    const std::string name = tests::fresh_socket_name();
    const auto ends = run_processes(3, [&](int rank) -> std::string {
        if (rank == 2) {
            const base::UniqueFd socket = raw_connection(name);
            say(socket, encode_hello({2, 3}));
            if (hear_refusal(socket) != "start") {
                return "not let in";
            }
            say(socket, encode_header({FrameKind::allgather, 0, 1, 1'000'000}));
            say(socket, tests::pattern(1000, 1));
            ::raise(SIGKILL);
        }
        return with_plane(options_for(name, rank, 3),
                          [&](ControlPlane& plane) { return outcome(plane.allgather({}).status()); });
    });
    CHECK_THAT(ends[0], Catch::StartsWith("Aborted: allgather: rank 2 has closed its connection"));
    CHECK(ends[1] == ends[0]);
}

TEST_CASE("impossible messages are refused before memory is allocated for them", "[processes]") {
    struct Case {
        FrameHeader header;
        const char* expected;
    };
    const std::vector<Case> cases{
        {{FrameKind::barrier, 0, 1, ~std::uint64_t{0}}, "Internal: barrier: rank 1 announces a message of"},
        {{FrameKind::barrier, 0, 7, 0}, "Internal: rank 1 is in operation 7 (barrier, root 0) where rank 0 is in"},
        {{FrameKind::allgather, 0, 1, 0}, "Internal: rank 1 is in operation 1 (allgather, root 0) where rank 0 is in"},
        {{static_cast<FrameKind>(99), 0, 1, 0}, "Internal: barrier: rank 1 has sent a message of kind 99"},
    };
    for (const Case& wrong : cases) {
        const std::string name = tests::fresh_socket_name();
        const auto ends = run_processes(3, [&](int rank) -> std::string {
            if (rank == 1) {
                const base::UniqueFd socket = raw_connection(name);
                say(socket, encode_hello({1, 3}));
                if (hear_refusal(socket) != "start") {
                    return "not let in";
                }
                say(socket, encode_header(wrong.header));
                return hear_refusal(socket);
            }
            return with_plane(options_for(name, rank, 3), barrier_of);
        });
        CHECK_THAT(ends[0], Catch::StartsWith(wrong.expected));
        CHECK(ends[1] == ends[0]);
        CHECK(ends[2] == ends[0]);
    }
}

TEST_CASE("a rank that stays away from an operation is named on all others", "[processes]") {
    const std::string name = tests::fresh_socket_name();
    const auto ends = run_processes(4, [&](int rank) {
        auto options = options_for(name, rank, 4);
        options.operation_timeout = 1s;
        return with_plane(options, [&](ControlPlane& plane) {
            if (rank == 1 || rank == 2) {
                std::this_thread::sleep_for(3s);
                return std::string("late");
            }
            return barrier_of(plane);
        });
    });
    CHECK(ends[0] == "Timeout: barrier: rank 1, 2 did not come within 1 s");
    CHECK(ends[3] == ends[0]);
}

TEST_CASE("a call that cannot be served fails on all ranks alike", "[processes]") {
    for (const int caller : {0, 2}) {
        const std::string name = tests::fresh_socket_name();
        const auto ends = run_processes(3, [&](int rank) {
            return with_plane(options_for(name, rank, 3), [&](ControlPlane& plane) {
                const Bytes mine(rank == caller ? kMaxControlMessage + 1 : 1);
                return outcome(plane.allgather(mine).status());
            });
        });
        const std::string expected =
            fmt::format("InvalidArgument: allgather: rank {} gave 67108865 bytes, expected at most 67108864", caller);
        CHECK(ends == std::vector<std::string>(3, expected));
    }
    const std::string name = tests::fresh_socket_name();
    const auto ends = run_processes(2, [&](int rank) {
        return with_plane(options_for(name, rank, 2), [&](ControlPlane& plane) {
            return outcome(plane.allgather(Bytes(kMaxControlMessage / 2)).status());
        });
    });
    CHECK_THAT(ends[0], Catch::StartsWith("InvalidArgument: allgather: the 2 ranks together gave 67108880 bytes"));
    CHECK(ends[1] == ends[0]);
}

TEST_CASE("a root that does not exist fails on all ranks", "[processes]") {
    const std::string name = tests::fresh_socket_name();
    const auto ends = run_processes(2, [&](int rank) {
        return with_plane(options_for(name, rank, 2),
                          [&](ControlPlane& plane) { return outcome(plane.broadcast({}, 2).status()); });
    });
    CHECK(ends == std::vector<std::string>(2, "InvalidArgument: broadcast: root 2 does not exist, expected 0 to 1"));
}

TEST_CASE("descriptors are closed on exec, and none is left after the close", "[processes]") {
    const std::string name = tests::fresh_socket_name();
    const auto ends = run_processes(3, [&](int rank) -> std::string {
        const std::vector<int> before = tests::open_descriptors();
        const std::string result = with_plane(options_for(name, rank, 3), [&](ControlPlane& plane) -> std::string {
            std::size_t added = 0;
            for (const int fd : tests::open_descriptors()) {
                if (std::find(before.begin(), before.end(), fd) == before.end()) {
                    ++added;
                    if ((::fcntl(fd, F_GETFD) & FD_CLOEXEC) == 0) {
                        return fmt::format("descriptor {} survives an exec", fd);
                    }
                }
            }
            if (added != (rank == 0 ? 2U : 1U)) {
                return fmt::format("{} descriptors more", added);
            }
            return barrier_of(plane);
        });
        return tests::open_descriptors() == before ? result : "a descriptor is left";
    });
    CHECK(ends == all_ok(3));
}

}  // namespace
}  // namespace rueda::collectives
