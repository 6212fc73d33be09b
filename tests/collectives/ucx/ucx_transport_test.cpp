// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The Rueda authors
// Tests the transport over UCX. Each rank has its own worker in this process.
#include "collectives/ucx/ucx_transport.hpp"

#include <dirent.h>
#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <catch2/catch.hpp>
#include <chrono>
#include <cstdlib>
#include <fstream>
#include <functional>
#include <string>
#include <thread>
#include <vector>

#include "collectives/tcp/leader_transport.hpp"
#include "collectives/ucx/ucx_rendezvous.hpp"
#include "tests/collectives/plane_checks.hpp"
#include "tests/collectives/transport_checks.hpp"
#include "tests/support/ranks/thread_control_plane.hpp"

namespace rueda::tests {
namespace {

using namespace std::chrono_literals;
using collectives::BulkTransport;
using collectives::Bytes;
using collectives::ControlPlane;
using collectives::Transport;
using collectives::UcxRendezvous;
using collectives::UcxTransport;
using collectives::UcxWorker;
using Channel = Transport::Channel;
using Clock = std::chrono::steady_clock;

constexpr std::chrono::seconds kLimit{60};

/// Calls `body` for each rank, on a thread of its own. Returns the results, indexed by rank.
std::vector<std::string> on_ranks(int size, const std::function<std::string(int rank)>& body) {
    std::vector<std::string> results(static_cast<std::size_t>(size));
    std::vector<std::thread> threads;
    for (int rank = 0; rank < size; ++rank) {
        threads.emplace_back([&, rank] { results[static_cast<std::size_t>(rank)] = body(rank); });
    }
    for (std::thread& thread : threads) {
        thread.join();
    }
    return results;
}

std::vector<std::string> all_ok(int size) { return std::vector<std::string>(static_cast<std::size_t>(size), "ok"); }

Result<UcxRendezvous> meet(ControlPlane& plane, decltype(collectives::UcxRendezvousOptions::create) create,
                           std::chrono::milliseconds time = kLimit) {
    return collectives::rendezvous_over_ucx([&](std::span<const std::byte> mine) { return plane.allgather(mine); },
                                            {plane.rank(), plane.size(), time, {}, std::move(create)});
}

/// Connects all ranks over UCX, calls `body` for each rank, and ends all transports.
std::vector<std::string> run_over_ucx(int size, const std::function<std::string(BulkTransport&, int rank)>& body) {
    const auto planes = collectives::make_thread_control_planes(size);
    return on_ranks(size, [&](int rank) {
        ControlPlane& plane = *planes[static_cast<std::size_t>(rank)];
        auto rendezvous = meet(plane, collectives::make_ucx_transport);
        if (!rendezvous.is_ok() || !rendezvous.value().why_not.empty()) {
            return rendezvous.is_ok() ? rendezvous.value().why_not : outcome(rendezvous.status());
        }
        BulkTransport& transport = *rendezvous.value().transport;
        std::string result = body(transport, rank);
        const Status finished = transport.finish({kLimit});
        const Status together = plane.barrier();
        transport.close();
        result = result == "ok" ? outcome(finished) : result;
        return result == "ok" ? outcome(together) : result;
    });
}

/// Two ranks in one thread.
struct TwoRanks {
    explicit TwoRanks(std::uint32_t first_generation = 0) {
        std::unique_ptr<UcxWorker> worker = UcxWorker::create(2).value();
        worker_of_a = worker.get();
        a = std::make_unique<UcxTransport>(std::move(worker), 0, 2, first_generation);
        b = std::make_unique<UcxTransport>(UcxWorker::create(2).value(), 1, 2, first_generation);
        REQUIRE(a->connect({a->address(), b->address()}).is_ok());
        REQUIRE(b->connect({a->address(), b->address()}).is_ok());
    }
    /// Lets both ranks make progress until `is_over` returns true.
    void until(const std::function<bool()>& is_over) {
        const auto deadline = Clock::now() + kLimit;
        while (!is_over()) {
            REQUIRE(Clock::now() < deadline);
            static_cast<void>(a->progress().is_ok());
            static_cast<void>(b->progress().is_ok());
        }
    }
    std::size_t end_of(BulkTransport& rank, Transport::Ticket ticket) {
        std::optional<std::size_t> end;
        until([&] {
            const auto done = rank.test(ticket);
            REQUIRE(done.is_ok());
            end = done.value();
            return end.has_value();
        });
        return *end;
    }
    Status failure_of(BulkTransport& rank, Transport::Ticket ticket) {
        Status failure;
        until([&] {
            const auto done = rank.test(ticket);
            failure = done.status();
            return !failure.is_ok();
        });
        return failure;
    }

    UcxWorker* worker_of_a = nullptr;  ///< valid until `a` is closed
    std::unique_ptr<BulkTransport> a;
    std::unique_ptr<BulkTransport> b;
};

/// A transport over UCX that tells the other ranks a wrong address: the address of a worker that was closed.
class SilentTransport final : public BulkTransport {
public:
    SilentTransport(std::unique_ptr<BulkTransport> inner, Bytes address)
        : inner_(std::move(inner)), address_(std::move(address)) {}
    [[nodiscard]] std::string description() const override { return inner_->description(); }
    [[nodiscard]] Bytes address() const override { return address_; }
    Status connect(std::vector<Bytes> addresses) override { return inner_->connect(std::move(addresses)); }
    Status barrier(const Wait& wait) override { return inner_->barrier(wait); }
    Status finish(const Wait& wait) override { return inner_->finish(wait); }
    void close() noexcept override { inner_->close(); }
    Result<Ticket> send(int rank, Port port, std::span<const std::byte> bytes) override {
        return inner_->send(rank, port, bytes);
    }
    Result<Ticket> receive(int rank, Port port, std::span<std::byte> room) override {
        return inner_->receive(rank, port, room);
    }
    Result<std::optional<std::size_t>> test(Ticket ticket) override { return inner_->test(ticket); }
    Result<bool> cancel(Ticket ticket) override { return inner_->cancel(ticket); }
    void abandon() override { inner_->abandon(); }

private:
    std::unique_ptr<BulkTransport> inner_;
    Bytes address_;
};

TEST_CASE("the transport over UCX passes the checks of all transports", "[threads]") {
    const int size = GENERATE(2, 3);
    CHECK(run_over_ucx(size, [&](BulkTransport& transport, int rank) {
              return exercise_transport(transport, rank, size, 3'000'000);
          }) == all_ok(size));
}

TEST_CASE("a rank alone has nobody to wait for over UCX", "[threads]") {
    CHECK(run_over_ucx(1, [](BulkTransport& transport, int) { return outcome(transport.barrier({kLimit})); }) ==
          all_ok(1));
}

TEST_CASE("no rank passes the barrier over UCX before the last one has come", "[threads]") {
    constexpr int kSize = 5;
    std::atomic<int> come{0};
    CHECK(run_over_ucx(kSize, [&](BulkTransport& transport, int rank) -> std::string {
              for (int round = 1; round <= 20; ++round) {
                  // In each round a different rank sleeps first, so that this rank usually enters the barrier last.
                  std::this_thread::sleep_for(std::chrono::microseconds(rank == round % kSize ? 500 : 0));
                  come.fetch_add(1);
                  if (const Status passed = transport.barrier({kLimit}); !passed.is_ok()) {
                      return outcome(passed);
                  }
                  if (come.load() < round * kSize) {
                      return fmt::format("round {}: {} have come", round, come.load());
                  }
              }
              return "ok";
          }) == all_ok(kSize));
}

TEST_CASE("messages that nobody receives do not hinder the end over UCX", "[threads]") {
    // UCX sends the short message at once. It sends the long message only when the receiver has agreed.
    const std::vector<Bytes> sent{pattern(10, 1), pattern(2'000'000, 2)};
    CHECK(run_over_ucx(3, [&](BulkTransport& transport, int rank) -> std::string {
              for (const Bytes& bytes : sent) {
                  const auto ticket = transport.send((rank + 1) % 3, Channel::messages, bytes);
                  if (!ticket.is_ok()) {
                      return outcome(ticket.status());
                  }
              }
              return "ok";
          }) == all_ok(3));
}

TEST_CASE("a message over UCX is found before it is received, and the first one first", "[threads]") {
    TwoRanks two;
    CHECK(two.b->probe().value() == std::nullopt);
    const Bytes first = pattern(7, 1);
    const Bytes second = pattern(900'000, 2);
    const Bytes other = pattern(3, 3);
    const auto data = two.a->send(1, Channel::data, other).value();
    const auto sent_first = two.a->send(1, Channel::messages, first).value();
    const auto sent_second = two.a->send(1, Channel::messages, second).value();
    for (const Bytes& expected : {first, second}) {
        std::optional<Transport::Arrival> arrival;
        two.until([&] {
            arrival = two.b->probe().value();
            return arrival.has_value();
        });
        CHECK(arrival->rank == 0);
        REQUIRE(arrival->bytes == expected.size());
        Bytes room(arrival->bytes);
        CHECK(two.end_of(*two.b, two.b->receive(0, Channel::messages, room).value()) == expected.size());
        CHECK(room == expected);
    }
    CHECK(two.b->probe().value() == std::nullopt);
    Bytes room(10);
    CHECK(two.end_of(*two.b, two.b->receive(0, Channel::data, room).value()) == 3);
    CHECK(two.end_of(*two.a, data) == 3);
    CHECK(two.end_of(*two.a, sent_first) == 7);
    CHECK(two.end_of(*two.a, sent_second) == 900'000);
}

TEST_CASE("a receive over UCX gets only messages of its port", "[threads]") {
    TwoRanks two;
    Bytes of_set_5(4);
    Bytes of_data(4);
    Bytes of_control(4);
    const auto in_set_5 = two.b->receive(0, {Channel::data, 5}, of_set_5).value();
    const auto in_data = two.b->receive(0, Channel::data, of_data).value();
    const auto in_control = two.b->receive(0, Channel::control, of_control).value();
    const Bytes one = pattern(1, 1);
    const Bytes four = pattern(2, 2);
    const Bytes three = pattern(3, 3);
    static_cast<void>(two.a->send(1, Channel::control, one).value());
    static_cast<void>(two.a->send(1, {Channel::data, 5}, four).value());
    static_cast<void>(two.a->send(1, Channel::data, three).value());
    CHECK(two.end_of(*two.b, in_data) == 3);
    CHECK(two.end_of(*two.b, in_set_5) == 2);
    CHECK(two.end_of(*two.b, in_control) == 1);
    CHECK(Bytes(of_data.begin(), of_data.begin() + 3) == three);
    CHECK(of_control[0] == one[0]);
}

TEST_CASE("a message over UCX that is longer than its memory ends the job", "[threads]") {
    const std::size_t length = GENERATE(std::size_t{11}, std::size_t{700'000});
    TwoRanks two;
    Bytes room(10, std::byte{7});
    const auto ticket = two.b->receive(0, Channel::data, std::span(room).first(9)).value();
    const Bytes sent = pattern(length, 1);
    static_cast<void>(two.a->send(1, Channel::data, sent).value());
    const Status failure = two.failure_of(*two.b, ticket);
    CHECK(outcome(failure) == "Aborted: rank 0 sent more than the 9 bytes that rank 1 has room for");
    CHECK(room[9] == std::byte{7});
    CHECK(outcome(two.b->send(0, Channel::data, sent).status()) == outcome(failure));
}

TEST_CASE("a receive over UCX is cancelled, and later messages of its port reach nobody", "[threads]") {
    TwoRanks two;
    Bytes room(10, std::byte{7});
    CHECK(two.b->cancel(two.b->receive(0, {Channel::control, 1}, room).value()).value());
    Bytes after(10);
    const auto ticket = two.b->receive(0, Channel::control, after).value();
    const Bytes sent = pattern(5, 1);
    static_cast<void>(two.a->send(1, {Channel::control, 1}, sent).value());
    static_cast<void>(two.a->send(1, Channel::control, sent).value());
    CHECK(two.end_of(*two.b, ticket) == 5);
    CHECK(room == Bytes(10, std::byte{7}));
}

TEST_CASE("a peer over UCX that has gone becomes an error that names it", "[threads]") {
    TwoRanks two;
    Bytes room(10);
    const Bytes sent = pattern(6, 1);
    const auto before = two.a->receive(1, Channel::data, room).value();
    static_cast<void>(two.b->send(0, Channel::data, sent).value());
    CHECK(two.end_of(*two.a, before) == 6);
    const auto waiting = two.a->receive(1, Channel::data, room).value();
    const auto gone = Clock::now();
    two.b->close();
    const std::string text = outcome(two.failure_of(*two.a, waiting));
    CHECK(text.rfind("Aborted: the connection of rank 0 to rank 1 over UCX has ended: ", 0) == 0);
    CHECK(Clock::now() - gone >= collectives::UcxTransport::kLossPatience);
    CHECK(outcome(two.a->test(waiting).status()) == text);
    CHECK(outcome(two.a->progress()) == text);
}

TEST_CASE("a send to a peer over UCX that has gone fails too, and a long one in progress", "[threads]") {
    TwoRanks two;
    const Bytes sent = pattern(5'000'000, 1);
    const auto in_progress = two.a->send(1, Channel::messages, sent).value();
    two.until([&] { return two.b->probe().value().has_value(); });
    two.b->close();
    two.until([&] { return two.worker_of_a->loss_of(1).has_value(); });
    const auto noticed = two.worker_of_a->loss_of(1)->noticed;
    // Rank 1 is lost, so the send below is not passed to UCX. The receive below must still wait, because a message
    // could have arrived before the loss.
    Bytes room(10);
    const std::vector<Transport::Ticket> tickets{in_progress, two.a->send(1, Channel::data, sent).value(),
                                                 two.a->receive(1, Channel::data, room).value()};
    std::string text;
    two.until([&] {
        for (const Transport::Ticket ticket : tickets) {
            const auto done = two.a->test(ticket);
            CHECK((done.is_ok() || Clock::now() - noticed >= UcxTransport::kLossPatience));
            CHECK((!done.is_ok() || !done.value().has_value()));
            text = outcome(done.status());
        }
        return text != "ok";
    });
    CHECK(text.rfind("Aborted: the connection of rank 0 to rank 1 over UCX has ended: ", 0) == 0);
    two.a->close();
}

TEST_CASE("a ticket over UCX leaves bit 63 to wrapping transports, however often its place was used", "[threads]") {
    TwoRanks two(0x7fff'fffe);
    const auto leader = collectives::LeaderTransport::create(*two.a, 5s, 1000).value();
    const Bytes sent = pattern(6, 1);
    for (const std::uint64_t generation : {0x7fff'ffffU, 0U, 1U}) {
        Bytes room(10);
        const auto coming = two.b->receive(0, Channel::data, room).value();
        const auto going = leader->send(1, Channel::data, sent).value();
        CHECK(going == generation << 32U);
        two.until([&] { return leader->test(going).value() == 6U; });
        CHECK(two.end_of(*two.b, coming) == 6U);
    }
}

TEST_CASE("a forked child leaves the connections over UCX to its parent", "[threads]") {
    TwoRanks two;
    Bytes room(10);
    const Bytes sent = pattern(6, 1);
    const auto first = two.a->receive(1, Channel::data, room).value();
    static_cast<void>(two.b->send(0, Channel::data, sent).value());
    CHECK(two.end_of(*two.a, first) == 6);
    const auto second = two.a->receive(1, Channel::data, room).value();
    const pid_t child = ::fork();
    REQUIRE(child >= 0);
    if (child == 0) {
        two.a->close();
        two.a.reset();
        ::_exit(0);
    }
    int wait_status = 0;
    REQUIRE(::waitpid(child, &wait_status, 0) == child);
    CHECK(wait_status == 0);
    static_cast<void>(two.b->send(0, Channel::data, sent).value());
    CHECK(two.end_of(*two.a, second) == 6);
}

/// Returns the signals that UCX's threads of this process block. Each element is the mask of a thread.
std::vector<std::uint64_t> masks_of_ucx_threads() {
    std::vector<std::uint64_t> masks;
    DIR* const tasks = ::opendir("/proc/self/task");
    REQUIRE(tasks != nullptr);
    while (const dirent* const task = ::readdir(tasks)) {  // NOLINT(concurrency-mt-unsafe): no other thread reads it
        std::ifstream status("/proc/self/task/" + std::string(task->d_name) + "/status");
        std::string line;
        if (!std::getline(status, line) || line != "Name:\tasync") {
            continue;
        }
        while (std::getline(status, line)) {
            if (line.rfind("SigBlk:", 0) == 0) {
                masks.push_back(std::stoull(line.substr(7), nullptr, 16));
            }
        }
    }
    ::closedir(tasks);
    return masks;
}

TEST_CASE("UCX takes no signals of the program", "[threads]") {
    const TwoRanks two;
    const std::vector<std::uint64_t> masks = masks_of_ucx_threads();
    CHECK_FALSE(masks.empty());
    const auto blocks = [](std::uint64_t mask, int signal) { return ((mask >> (signal - 1)) & 1U) != 0; };
    for (const std::uint64_t mask : masks) {
        CHECK(blocks(mask, SIGTERM));
        CHECK(blocks(mask, SIGHUP));
        CHECK_FALSE(blocks(mask, SIGSEGV));
    }
    // When UCX was loaded, it replaced the handler of SIGHUP.
    const std::array<const char*, 3> variables{"UCX_HANDLE_ERRORS", "UCX_ERROR_SIGNALS", "UCX_DEBUG_SIGNO"};
    // NOLINTNEXTLINE(concurrency-mt-unsafe): no thread changes the environment
    const auto is_set = [](const char* name) { return std::getenv(name) != nullptr; };
    if (std::none_of(variables.begin(), variables.end(), is_set)) {
        struct sigaction action {};
        REQUIRE(::sigaction(SIGHUP, nullptr, &action) == 0);
        CHECK((action.sa_handler == SIG_DFL || action.sa_handler == SIG_IGN));
    }
}

TEST_CASE("after abandon() nothing goes over UCX any more", "[threads]") {
    TwoRanks two;
    Bytes room(10);
    const auto ticket = two.a->receive(1, Channel::data, room).value();
    two.a->abandon();
    const std::string text = "Aborted: the job has ended: rank 0 sends and receives no more messages";
    CHECK(outcome(two.a->test(ticket).status()) == text);
    CHECK(outcome(two.a->send(1, Channel::data, room).status()) == text);
    CHECK(outcome(two.a->receive(1, Channel::data, room).status()) == text);
    CHECK(outcome(two.a->probe().status()) == text);
    CHECK(outcome(two.a->finish({kLimit})) == text);
    two.a->close();
    CHECK(outcome(two.a->progress()) == text);
}

TEST_CASE("a wait over UCX ends at its limit, or with the failure of what it does meanwhile", "[threads]") {
    TwoRanks two;
    CHECK(outcome(two.a->barrier({50ms})) == "Timeout: rank 0 waited 0.05 s for rank 1 over UCX");
    CHECK(outcome(two.b->barrier({kLimit, [] { return Status(ErrorCode::aborted, "another reason"); }})) ==
          "Aborted: another reason");
}

TEST_CASE("if one rank cannot use UCX, no rank does, and all know why", "[threads]") {
    const auto planes = collectives::make_thread_control_planes(3);
    const auto results = on_ranks(3, [&](int rank) {
        const auto create = [](int of, int size) -> Result<std::unique_ptr<BulkTransport>> {
            return of == 1 ? failure(ErrorCode::unsupported, "there is no plugin")
                           : collectives::make_ucx_transport(of, size);
        };
        auto rendezvous = meet(*planes[static_cast<std::size_t>(rank)], create);
        return rendezvous.value().transport == nullptr ? rendezvous.value().why_not : "a transport";
    });
    CHECK(results == std::vector<std::string>(3, "rank 1: there is no plugin"));
}

TEST_CASE("ranks that do not reach each other over UCX learn it in time", "[threads]") {
    const auto planes = collectives::make_thread_control_planes(2);
    const auto results = on_ranks(2, [&](int rank) {
        // The worker of this address was closed, so nobody answers at the address.
        const Bytes nobody = collectives::make_ucx_transport(rank, 2).value()->address();
        const auto create = [&](int of, int size) -> Result<std::unique_ptr<BulkTransport>> {
            auto inner = collectives::make_ucx_transport(of, size);
            RUEDA_RETURN_IF_FAILED(inner.status());
            return std::unique_ptr<BulkTransport>(new SilentTransport(std::move(inner).value(), nobody));
        };
        const auto begin = Clock::now();
        auto rendezvous = meet(*planes[static_cast<std::size_t>(rank)], create, 2s);
        if (Clock::now() - begin > 20s) {
            return std::string("too late");
        }
        return rendezvous.value().transport == nullptr ? rendezvous.value().why_not : "a transport";
    });
    CHECK(results[0] == results[1]);
    CHECK(results[0].find("rank 0: ") == 0);
    CHECK(results[0].find("over UCX") != std::string::npos);
}

}  // namespace
}  // namespace rueda::tests
