// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The Rueda authors
// Tests the waits of a job whose data goes over UCX. The transport and the control plane move no data. They only record
// which of their functions were called.
#include "core/hosts/bulk_connections.hpp"

#include <sys/mman.h>
#include <sys/socket.h>
#include <unistd.h>

#include <array>
#include <catch2/catch.hpp>
#include <functional>
#include <new>
#include <string>
#include <thread>
#include <vector>

#include "base/launcher_notification.hpp"
#include "base/unique_fd.hpp"

namespace rueda::core::test {
namespace {

using namespace std::chrono_literals;
using collectives::BulkTransport;
using collectives::Bytes;
using collectives::Transport;
using Clock = std::chrono::steady_clock;
using Diary = std::vector<std::string>;
using Wait = BulkTransport::Wait;

constexpr std::chrono::seconds kPatience{60};

/// Imitates a transport whose peers never connect. Waits until the function `meanwhile` returns a failure.
Status wait_in_vain(const Wait& wait) {
    const auto deadline = Clock::now() + kPatience;
    while (Clock::now() < deadline) {
        RUEDA_RETURN_IF_FAILED(wait.meanwhile());
        std::this_thread::sleep_for(1ms);
    }
    return {ErrorCode::timeout, "nothing has ended the wait"};
}

class DiaryTransport final : public BulkTransport {
public:
    explicit DiaryTransport(Diary& diary) : diary_(diary) {}
    [[nodiscard]] std::string description() const override { return "diary"; }
    [[nodiscard]] Bytes address() const override { return {}; }
    Status connect(std::vector<Bytes> /*addresses*/) override { return {}; }
    Status barrier(const Wait& wait) override { return finish(wait); }
    Status finish(const Wait& wait) override {
        diary_.emplace_back("finish");
        return body(wait);
    }
    void close() noexcept override { diary_.emplace_back("close"); }
    Result<Ticket> send(int /*rank*/, Port /*port*/, std::span<const std::byte> /*bytes*/) override {
        return Ticket{0};
    }
    Result<Ticket> receive(int /*rank*/, Port /*port*/, std::span<std::byte> /*room*/) override { return Ticket{0}; }
    Result<std::optional<std::size_t>> test(Ticket /*ticket*/) override { return std::optional<std::size_t>(); }
    Result<bool> cancel(Ticket /*ticket*/) override { return true; }
    Status progress() override {
        ++progressed;
        return {};
    }
    void abandon() override {}

    std::function<Status(const Wait&)> body = [](const Wait&) { return Status(); };
    int progressed = 0;

private:
    Diary& diary_;
};

class DiaryPlane final : public collectives::ControlPlane {
public:
    explicit DiaryPlane(Diary& diary) : messages(diary), diary_(diary) {}
    [[nodiscard]] int rank() const override { return 0; }
    [[nodiscard]] int size() const override { return 2; }
    [[nodiscard]] std::string description() const override { return "diary"; }
    Result<std::vector<Bytes>> allgather(std::span<const std::byte> /*mine*/) override { return std::vector<Bytes>(2); }
    Result<Bytes> broadcast(std::span<const std::byte> /*mine*/, int /*root*/) override { return Bytes(); }
    Status barrier() override { return barrier_within(kPatience); }
    Status barrier_within(std::chrono::milliseconds given) override {
        diary_.emplace_back("barrier");
        limit = given;
        return of_barrier;
    }
    Transport* transport() override { return &messages; }
    void close(bool /*after_failure*/) override {}

    Status of_barrier;
    std::chrono::milliseconds limit{-1};
    DiaryTransport messages;

private:
    Diary& diary_;
};

/// A rank that leaves its job.
struct Leaving {
    Leaving() { config.start_timeout_seconds = 5; }
    bool end(bool after_failure = false) {
        const base::Logger logger(config, 0, log.value());
        return end_bulk_transport(config, logger, plane, transport, after_failure, {control.get(), launcher.get()});
    }
    [[nodiscard]] std::string logged() const {
        std::string text(4096, '\0');
        text.resize(static_cast<std::size_t>(::pread(log.value(), text.data(), text.size(), 0)));
        return text;
    }
    /// Imitates ruedarun, which informs this rank how rank 1 has ended.
    void hear(base::LauncherNotification::Kind kind, const std::string& text) {
        std::array<int, 2> ends{};
        REQUIRE(::socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, ends.data()) == 0);
        ruedarun.reset(ends[0]);
        launcher = std::make_unique<LauncherLine>(base::UniqueFd(ends[1]), 0, 2);
        const std::string bytes = base::encode({kind, 1, text});
        REQUIRE(::send(ruedarun.value(), bytes.data(), bytes.size(), 0) == static_cast<ssize_t>(bytes.size()));
    }

    base::Config config;
    base::UniqueFd log{::memfd_create("rueda-test", MFD_CLOEXEC)};
    base::UniqueFd ruedarun;
    std::unique_ptr<base::ControlBlock> control = std::make_unique<base::ControlBlock>();
    std::unique_ptr<LauncherLine> launcher;
    Diary diary;
    DiaryTransport transport{diary};
    DiaryPlane plane{diary};
};

const std::string kNotFinalised = "; every rank had its results, but MPI is not finalised on this one";

TEST_CASE("the ranks wait for each other over UCX, then over MPI, and then close their connections") {
    Leaving rank;
    rank.transport.body = [](const Wait& wait) {
        CHECK(wait.limit == 5s);
        std::this_thread::sleep_for(20ms);
        return wait.meanwhile();
    };
    CHECK(rank.end());
    CHECK(rank.diary == Diary{"finish", "barrier", "close"});
    // Both waits share one deadline.
    CHECK(rank.plane.limit >= 0ms);
    CHECK(rank.plane.limit <= 4980ms);
    CHECK(rank.logged().empty());
}

TEST_CASE("if the wait over UCX takes all the time, MPI gets none") {
    Leaving rank;
    rank.config.start_timeout_seconds = 0.01;
    rank.transport.body = [](const Wait&) {
        std::this_thread::sleep_for(20ms);
        return Status();
    };
    CHECK(rank.end());
    CHECK(rank.plane.limit == 0ms);
}

TEST_CASE("after a failed wait over UCX, the ranks do not wait over MPI") {
    Leaving rank;
    rank.transport.body = [](const Wait&) { return Status(ErrorCode::aborted, "rank 1 has gone"); };
    CHECK_FALSE(rank.end());
    CHECK(rank.diary == Diary{"finish", "close"});
    CHECK(rank.logged().find("shutdown: rank 1 has gone" + kNotFinalised) != std::string::npos);
}

TEST_CASE("a failed wait over MPI is reported, and the connections are closed") {
    Leaving rank;
    rank.plane.of_barrier = Status(ErrorCode::timeout, "barrier: not all ranks came within 5 s");
    CHECK_FALSE(rank.end());
    CHECK(rank.diary == Diary{"finish", "barrier", "close"});
    CHECK(rank.logged().find("shutdown: barrier: not all ranks came within 5 s" + kNotFinalised) != std::string::npos);
}

TEST_CASE("after a failure of the job, a rank waits for nobody") {
    Leaving rank;
    CHECK_FALSE(rank.end(/*after_failure=*/true));
    CHECK(rank.diary == Diary{"close"});
    CHECK(rank.logged().empty());
}

TEST_CASE("a lack of memory ends the wait for other ranks, and the connections are closed") {
    Leaving rank;
    rank.transport.body = [](const Wait&) -> Status { throw std::bad_alloc(); };
    CHECK_FALSE(rank.end());
    CHECK(rank.diary == Diary{"finish", "close"});
}

TEST_CASE("an abort ends the wait for other ranks at the end of the job") {
    Leaving rank;
    rank.transport.body = wait_in_vain;
    REQUIRE(rank.control->abort.raise(ErrorCode::aborted, "rank 1 was killed"));
    CHECK_FALSE(rank.end());
    CHECK(rank.diary == Diary{"finish", "close"});
    CHECK(rank.logged().find("shutdown: rank 1 was killed" + kNotFinalised) != std::string::npos);
}

TEST_CASE("the launcher's notification of a failed rank ends the wait for it at the end of the job") {
    Leaving rank;
    rank.transport.body = wait_in_vain;
    rank.hear(base::LauncherNotification::Kind::failed, "rank 1 was killed by signal 9");
    CHECK_FALSE(rank.end());
    CHECK(rank.logged().find("shutdown: rank 1 was killed by signal 9" + kNotFinalised) != std::string::npos);
}

TEST_CASE("a rank that has left before is no reason to end the wait at the end of the job") {
    Leaving rank;
    rank.hear(base::LauncherNotification::Kind::ended_well, "rank 1 ended");
    rank.transport.body = [](const Wait& wait) {
        // this loop waits 1.3 s; a notification of a failure would end the wait earlier
        for (const auto until = Clock::now() + 1300ms; Clock::now() < until; std::this_thread::sleep_for(1ms)) {
            RUEDA_RETURN_IF_FAILED(wait.meanwhile());
        }
        return Status();
    };
    CHECK(rank.end());
}

TEST_CASE("the last wait of init lets MPI send, and ends early as the other waits do") {
    Leaving rank;
    rank.transport.body = wait_in_vain;
    SECTION("by an abort") {
        REQUIRE(rank.control->abort.raise(ErrorCode::aborted, "rank 1 could not start"));
        const Status passed =
            pass_last_messages(rank.config, rank.plane, rank.transport, {rank.control.get(), nullptr});
        CHECK(passed.code() == ErrorCode::aborted);
        CHECK(passed.message() == "rank 1 could not start");
    }
    SECTION("by the launcher") {
        rank.hear(base::LauncherNotification::Kind::failed, "rank 1 was killed by signal 9");
        const Status passed =
            pass_last_messages(rank.config, rank.plane, rank.transport, {rank.control.get(), rank.launcher.get()});
        CHECK(passed.code() == ErrorCode::aborted);
        CHECK(passed.message() == "rank 1 was killed by signal 9");
        CHECK(rank.plane.messages.progressed > 0);
    }
}

TEST_CASE("the ranks try UCX for a part of the time that init has") {
    base::Config config;
    config.transport = base::TransportKind::ucx;
    config.start_timeout_seconds = 60;
    CHECK(rendezvous_time(config, true) == 30s);
    config.start_timeout_seconds = 4;
    CHECK(rendezvous_time(config, true) == 2s);
    config.transport = base::TransportKind::automatic;
    CHECK(rendezvous_time(config, true) == 2s);
    config.start_timeout_seconds = 60;
    CHECK(rendezvous_time(config, true) == 10s);
    CHECK(rendezvous_time(config, false) == 30s);  // without MPI, nothing takes over
}

}  // namespace
}  // namespace rueda::core::test
