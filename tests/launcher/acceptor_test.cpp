// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The Rueda authors
#include "launcher/processes/acceptor.hpp"

#include <fcntl.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <sys/wait.h>
#include <unistd.h>

#include <catch2/catch.hpp>
#include <chrono>
#include <cstddef>
#include <string>
#include <vector>

namespace rueda::launcher {
namespace {

using Clock = std::chrono::steady_clock;
using namespace std::chrono_literals;

struct Listener {
    base::UniqueFd socket{::socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0)};
    sockaddr_un address{};
    socklen_t length = 0;

    Listener() {
        // The system chooses an abstract socket name, so no file is left behind.
        address.sun_family = AF_UNIX;
        length = sizeof(address);
        ::bind(socket.value(), reinterpret_cast<const sockaddr*>(&address), sizeof(sa_family_t));
        ::getsockname(socket.value(), reinterpret_cast<sockaddr*>(&address), &length);
        ::listen(socket.value(), 8);
    }
    [[nodiscard]] base::UniqueFd connect() const {
        base::UniqueFd client(::socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0));
        return ::connect(client.value(), reinterpret_cast<const sockaddr*>(&address), length) == 0 ? std::move(client)
                                                                                                   : base::UniqueFd();
    }
};

/// Opens descriptors until the process's limit of 64 is reached. The limit stays at 64 afterwards.
std::vector<base::UniqueFd> use_up_descriptors() {
    const rlimit limit{64, 64};
    ::setrlimit(RLIMIT_NOFILE, &limit);
    std::vector<base::UniqueFd> all;
    for (;;) {
        base::UniqueFd one(::open("/dev/null", O_RDONLY | O_CLOEXEC));
        if (!one.is_open()) {
            return all;
        }
        all.push_back(std::move(one));
    }
}

struct Seen {
    int turns_without = 0;  ///< number of turns of the event loop while no descriptor is free
    int accepted_without = 0;
    int accepted_after = 0;
    std::vector<std::string> lines = {};
};

int run_turns(Acceptor& acceptor, Clock::time_point until, const int& enough) {
    int turns = 0;
    for (; Clock::now() < until && enough == 0; ++turns) {
        base::PollSet set;
        acceptor.add_to(set);
        set.wake_at(until);
        set.wait_and_dispatch();
    }
    return turns;
}

Seen accept_without_descriptors() {
    Seen seen;
    int accepted = 0;
    Listener listening;
    const base::UniqueFd client = listening.connect();
    std::vector<base::UniqueFd> listeners;
    listeners.push_back(std::move(listening.socket));
    std::vector<base::UniqueFd> kept;
    Acceptor acceptor(
        std::move(listeners),
        [&](base::UniqueFd socket) {
            kept.push_back(std::move(socket));
            ++accepted;
        },
        [&](std::string_view line) { seen.lines.emplace_back(line); });
    std::vector<base::UniqueFd> all = use_up_descriptors();
    seen.turns_without = run_turns(acceptor, Clock::now() + 500ms, accepted);
    seen.accepted_without = accepted;
    all.clear();
    run_turns(acceptor, Clock::now() + 10s, accepted);
    seen.accepted_after = accepted;
    return seen;
}

/// Runs in a child process, because the descriptor limit applies to the whole process. Returns 0, or the number of the
/// failed expectation.
int check_in_child() {
    const Seen seen = accept_without_descriptors();
    if (seen.accepted_without != 0 || seen.accepted_after != 1) {
        return 1;
    }
    // The acceptor pauses for 10, 20, 40, … ms. In half a second there are six pauses, and each pause takes two turns
    // of the event loop. Without pauses, there would be hundreds of thousands of turns.
    if (seen.turns_without > 30) {
        return 2;
    }
    if (seen.lines != std::vector<std::string>{
                          "a connection of a rank cannot be accepted: accept4 failed: Too many open files (errno 24); "
                          "this process may open 64 files: raise the limit (ulimit -n), or start fewer ranks; "
                          "ruedarun keeps trying"}) {
        return 3;
    }
    return 0;
}

TEST_CASE("connections wait while no descriptor is left, and the loop does not spin", "[unit]") {
    const pid_t child = ::fork();
    REQUIRE(child >= 0);
    if (child == 0) {
        ::alarm(30);
        ::_exit(check_in_child());
    }
    int status = -1;
    REQUIRE(::waitpid(child, &status, 0) == child);
    REQUIRE(WIFEXITED(status));
    CHECK(WEXITSTATUS(status) == 0);
}

}  // namespace
}  // namespace rueda::launcher
