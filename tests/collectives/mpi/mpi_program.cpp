// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The Rueda authors
// A program that is linked with MPI, run by a real launcher. Usage: mpi_program SCENARIO. The exit status is 0 and
// nothing is printed if the scenario succeeds. Otherwise the program prints the error.
#include <cstdio>
#include <functional>
#include <map>
#include <span>
#include <string>

#include "collectives/mpi/load_plugin.hpp"
#include "collectives/mpi/mpi_control_plane.hpp"
#include "collectives/selection/select_control_plane.hpp"
#include "collectives/transport.hpp"
#include "tests/collectives/plane_checks.hpp"
#include "tests/collectives/transport_checks.hpp"

namespace {

using namespace rueda;
using namespace rueda::collectives;
using tests::outcome;

/// Selects and loads the plugin as librueda does.
Result<SelectedControlPlane> select() {
    base::Config config;
    config.mpi_library = std::getenv("RUEDA_MPI_PLUGIN");
    // The environment names no launcher. Rueda must choose MPI because the program has initialised it.
    return select_control_plane(config, base::environment_of({}));
}

void start_mpi(int level) {
    int provided = 0;
    MPI_Init_thread(nullptr, nullptr, level, &provided);
}

int world_rank() {
    int rank = 0;
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    return rank;
}
int world_size() {
    int size = 0;
    MPI_Comm_size(MPI_COMM_WORLD, &size);
    return size;
}

bool is_finalized() {
    int flag = 0;
    MPI_Finalized(&flag);
    return flag != 0;
}

/// Uses Rueda twice, because a program may start and shut down Rueda any number of times.
std::string use_and_close(bool expects_notice) {
    for (int start = 0; start < 2; ++start) {
        auto selected = select();
        if (!selected.is_ok()) {
            return outcome(selected.status());
        }
        if (selected.value().notice.empty() == expects_notice) {
            return "notice: " + selected.value().notice;
        }
        ControlPlane& plane = *selected.value().control_plane;
        if (const auto result = tests::exercise(plane, world_rank(), world_size(), 10'000); result != "ok") {
            return result;
        }
        plane.close(false);
    }
    if (is_finalized()) {
        return "Rueda has finalised an MPI that is not its own";
    }
    MPI_Barrier(MPI_COMM_WORLD);
    MPI_Finalize();
    return "ok";
}

std::string multiple() {
    start_mpi(MPI_THREAD_MULTIPLE);
    return use_and_close(false);
}

std::string serialized() {
    start_mpi(MPI_THREAD_SERIALIZED);
    return use_and_close(true);
}

std::string refused_at(int level, const std::string& name) {
    start_mpi(level);
    const std::string found = outcome(select().status());
    MPI_Finalize();
    return found.starts_with("Unsupported: the program has initialised MPI with " + name) ? "ok" : found;
}
std::string funneled() { return refused_at(MPI_THREAD_FUNNELED, "MPI_THREAD_FUNNELED"); }
std::string single() { return refused_at(MPI_THREAD_SINGLE, "MPI_THREAD_SINGLE"); }

std::string finalized_before() {
    start_mpi(MPI_THREAD_MULTIPLE);
    MPI_Finalize();
    const std::string found = outcome(select().status());
    return found.starts_with("Unsupported: MPI has been finalised in this process") ? "ok" : found;
}

std::string finalized_meanwhile() {
    start_mpi(MPI_THREAD_MULTIPLE);
    auto selected = select();
    if (!selected.is_ok()) {
        return outcome(selected.status());
    }
    ControlPlane& plane = *selected.value().control_plane;
    MPI_Finalize();
    const std::string found = outcome(plane.barrier());
    plane.close(false);
    return found.starts_with("NotInitialized: barrier: the program has called MPI_Finalize") ? "ok" : found;
}

/// Splits every message into pieces of 64 bytes.
std::string pieces() {
    start_mpi(MPI_THREAD_MULTIPLE);
    auto opened = open_mpi_control_plane(real_mpi(), {}, 64);
    if (!opened.is_ok()) {
        return outcome(opened.status());
    }
    const auto result = tests::exercise(*opened.value().control_plane, world_rank(), world_size(), 5'000);
    opened.value().control_plane->close(false);
    MPI_Finalize();
    return result;
}

/// MPI stays initialised between two starts. An exit handler finalises MPI, because otherwise mpirun would report an
/// error.
std::string stays_until_exit() {
    for (int start = 0; start < 2; ++start) {
        auto opened = open_mpi_control_plane(real_mpi(), {std::chrono::seconds(20), MpiFinalize::at_exit});
        if (!opened.is_ok()) {
            return outcome(opened.status());
        }
        const auto result = tests::exercise(*opened.value().control_plane, world_rank(), world_size(), 100);
        opened.value().control_plane->close(false);
        if (result != "ok" || is_finalized()) {
            return result == "ok" ? "finalised too early" : result;
        }
    }
    return "ok";
}

/// One rank does not open a control plane. The other ranks must give up in time.
std::string stays_away() {
    start_mpi(MPI_THREAD_MULTIPLE);
    auto opened = open_mpi_control_plane(real_mpi(), {std::chrono::milliseconds(200), MpiFinalize::at_close});
    if (!opened.is_ok()) {
        return outcome(opened.status());
    }
    std::string result = "ok";
    if (world_rank() != 0) {
        const std::string found = outcome(opened.value().control_plane->barrier());
        result = found == "Timeout: barrier: not all ranks came within 0.2 s" ? "ok" : found;
    }
    opened.value().control_plane->close(true);
    MPI_Finalize();
    return result;
}

/// First only the lowest and the last rank try to form a job, at different times, and each gives up. Then all ranks try
/// at the same time, and succeed. A rank must not enter the creation of the communicator alone, because this MPI call
/// cannot be interrupted.
std::string late(const Membership& membership, int size, const char* last_text) {
    const auto open = [&](std::chrono::milliseconds timeout) {
        MpiControlPlaneOptions options{timeout, MpiFinalize::at_close};
        options.membership = membership;
        return open_mpi_control_plane(real_mpi(), options);
    };
    const auto refused = [&](const std::string& text) -> std::string {
        auto opened = open(std::chrono::milliseconds(300));
        const std::string found = outcome(opened.status());
        return found.find(text) != std::string::npos ? "" : "'" + found + "' is not '" + text + "'";
    };
    std::string result;
    if (world_rank() == size - 1) {
        result = refused(last_text);
    }
    MPI_Barrier(MPI_COMM_WORLD);  // the last rank has given up, but its messages are still in transit
    if (world_rank() == 0) {
        result = refused("did not come within 0.3 s (RUEDA_START_TIMEOUT)");
    }
    MPI_Barrier(MPI_COMM_WORLD);
    if (world_rank() < size) {
        auto opened = open(std::chrono::seconds(30));
        if (!opened.is_ok()) {
            return result + outcome(opened.status());
        }
        ControlPlane& plane = *opened.value().control_plane;
        result += plane.size() == size ? "" : "the size is " + std::to_string(plane.size());
        const std::string exercised = tests::exercise(plane, world_rank(), size, 10'000);
        result += exercised == "ok" ? "" : exercised;
        plane.close(false);
    }
    MPI_Barrier(MPI_COMM_WORLD);
    MPI_Finalize();
    return result.empty() ? "ok" : result;
}

std::string late_in_list() {
    start_mpi(MPI_THREAD_MULTIPLE);
    Membership some;  // the list has all ranks of the launch except the last one
    some.has_list = true;
    for (int rank = 0; rank < world_size() - 1; ++rank) {
        some.ranks.push_back(rank);
    }
    return late(some, world_size() - 1,
                "Timeout: start: rank 0 of those that were launched did not answer within 0.3 s");
}

std::string late_in_communicator() {
    start_mpi(MPI_THREAD_MULTIPLE);
    MPI_Comm part = MPI_COMM_NULL;
    MPI_Comm_split(MPI_COMM_WORLD, world_rank() < world_size() - 1 ? 0 : 1, world_rank(), &part);
    Membership given;
    const auto bytes = std::as_bytes(std::span(&part, 1));
    given.communicator.assign(bytes.begin(), bytes.end());
    return late(given, world_size() - 1, "Timeout: start: rank 0 of the communicator did not answer within 0.3 s");
}

std::string late_in_launch() {
    start_mpi(MPI_THREAD_MULTIPLE);
    return late({}, world_size(), "Timeout: start: rank 0 of those that were launched did not answer within 0.3 s");
}

/// Calls `body` with the control plane and the transport, in two consecutive starts of Rueda.
std::string with_messages(const std::function<std::string(ControlPlane&, Transport&)>& body) {
    start_mpi(MPI_THREAD_MULTIPLE);
    for (int start = 0; start < 2; ++start) {
        auto opened = open_mpi_control_plane(real_mpi(), {std::chrono::seconds(20), MpiFinalize::at_close});
        if (!opened.is_ok()) {
            return outcome(opened.status());
        }
        ControlPlane& plane = *opened.value().control_plane;
        const std::string result = body(plane, *plane.transport());
        plane.close(false);
        if (result != "ok") {
            return result;
        }
    }
    MPI_Finalize();
    return "ok";
}

std::string messages() {
    return with_messages([](ControlPlane& plane, Transport& transport) {
        return tests::exercise_transport(transport, plane.rank(), plane.size(), std::size_t{64} << 20U);
    });
}

/// Closes the plane while messages are in transit and receives from every other rank are posted. Leaders post such
/// receives.
std::string posted_at_the_end() {
    // Both starts use this memory, which must stay valid until the plane is closed.
    static std::vector<Bytes> rooms;
    return with_messages([](ControlPlane& plane, Transport& transport) -> std::string {
        rooms.assign(static_cast<std::size_t>(plane.size()), Bytes(200));
        static const Bytes first = tests::pattern(50, 3);
        // The receiver posts no receive for this message. Nevertheless, it must be possible to close the plane.
        static const Bytes long_one = tests::pattern(1'000'000, 4);
        for (int peer = 0; peer < plane.size(); ++peer) {
            if (peer == plane.rank()) {
                continue;
            }
            const auto room = std::span(rooms[static_cast<std::size_t>(peer)]);
            if (!transport.receive(peer, Transport::Channel::control, room.first(100)).is_ok() ||
                (peer == 0 && !transport.send(peer, Transport::Channel::control, first).is_ok()) ||
                !transport.send(peer, Transport::Channel::data, first).is_ok() ||
                !transport.send(peer, Transport::Channel::data, long_one).is_ok() ||
                !transport.receive(peer, Transport::Channel::data, room.last(100)).is_ok()) {
                return "a message could not be started";
            }
        }
        return "ok";
    });
}

/// A message is longer than the receiver's buffer. The receiver must get an error. After this error, neither rank may
/// make another MPI call.
std::string too_long() {
    start_mpi(MPI_THREAD_MULTIPLE);
    auto opened = open_mpi_control_plane(real_mpi(), {std::chrono::seconds(20), MpiFinalize::at_close});
    if (!opened.is_ok()) {
        return outcome(opened.status());
    }
    ControlPlane& plane = *opened.value().control_plane;
    Transport& transport = *plane.transport();
    // The message is short, so MPI sends it at once. A longer message would wait for its receive. Open MPI 4.1.4 would
    // then copy the whole message from the sender's memory, and write past the end of the receiver's buffer.
    static const Bytes sent = tests::pattern(101, 3);
    const int to = (plane.rank() + 1) % plane.size();
    const int from = (plane.rank() + plane.size() - 1) % plane.size();
    Bytes room(100);
    const auto receive = transport.receive(from, Transport::Channel::data, room);
    const auto send = transport.send(to, Transport::Channel::data, sent);
    if (!receive.is_ok() || !send.is_ok()) {
        return "a message could not be started";
    }
    const std::string found = outcome(tests::finish(transport, receive.value()).status());
    const std::string with_length = fmt::format("Aborted: rank {} sent {} bytes where rank {} has room for {}", from,
                                                room.size() + 1, plane.rank(), room.size());
    const std::string without = fmt::format("Aborted: rank {} sent more than the {} bytes that rank {} has room for",
                                            from, room.size(), plane.rank());
    if (found != with_length && found != without) {
        return found;
    }
    if (outcome(transport.test(send.value()).status()) != found) {
        return "the transport went on after a failure";
    }
    plane.close(false);
    MPI_Barrier(MPI_COMM_WORLD);
    MPI_Finalize();
    return "ok";
}

}  // namespace

int main(int argc, char** argv) {
    const std::map<std::string, std::string (*)()> scenarios{
        {"multiple", multiple},
        {"serialized", serialized},
        {"funneled", funneled},
        {"single", single},
        {"finalized_before", finalized_before},
        {"finalized_meanwhile", finalized_meanwhile},
        {"late_in_list", late_in_list},
        {"late_in_communicator", late_in_communicator},
        {"late_in_launch", late_in_launch},
        {"pieces", pieces},
        {"stays_until_exit", stays_until_exit},
        {"stays_away", stays_away},
        {"messages", messages},
        {"posted_at_the_end", posted_at_the_end},
        {"too_long", too_long},
    };
    const auto scenario = argc == 2 ? scenarios.find(argv[1]) : scenarios.end();
    const std::string result = scenario == scenarios.end() ? "no such scenario" : scenario->second();
    if (result != "ok") {
        std::fprintf(stderr, "%s\n", result.c_str());
        return 1;
    }
    return 0;
}
