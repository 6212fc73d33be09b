// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The Rueda authors
// Tests how a send or a receive ends if its message does not arrive. The possible causes are: sizes or types differ, a
// rank leaves or dies, the process set is removed, or no receive matches.
#include <unistd.h>

#include <array>
#include <catch2/catch.hpp>
#include <csignal>

#include "tests/core/messages/messages.hpp"
#include "tests/faults/captured_errors.hpp"
#include "tests/faults/faults.hpp"

namespace rueda::tests {
namespace {

using Bytes = std::vector<std::uint8_t>;

void check(int size, const std::function<void(RankContext&, RuntimeClient&)>& body, const Layout& layout = {}) {
    const RanksResult result = run_clients(size, test_config(), body, {}, layout);
    INFO(layout);
    INFO(result.text());
    CHECK(result.passed());
}

TEST_CASE("a message that does not fit its receive fails on both sides alike, and the next one works", "[threads]") {
    const Layout layout = GENERATE("", "ab");
    const std::size_t bytes = GENERATE(std::size_t{16}, std::size_t{40'000});
    const bool other_dtype = GENERATE(false, true);
    check(
        2,
        [=](RankContext&, RuntimeClient& client) {
            const std::size_t received = other_dtype ? bytes : bytes + 4;
            const std::string expected = fmt::format(
                "the message from rank 0 to rank 1, tag 3, does not fit its receive: rank 0 sends {} bytes of float32; "
                "rank 1 receives {} bytes of {}; both need the same dtype and number of elements",
                bytes, received, other_dtype ? "int32" : "float32");
            Bytes memory(received, 7);
            const DType dtype = client.rank() == 1 && other_dtype ? DType::int32 : DType::float32;
            const std::span all(memory);
            const Status status = client.rank() == 0 ? send(client, all.first(bytes), {1, 3, dtype})
                                                     : receive(client, all, {kAnybody, 3, dtype});
            RUEDA_RANK_EQUAL(expect_failure(status, ErrorCode::mismatch, "mismatch"), expected);
            RUEDA_RANK_CHECK(memory == Bytes(received, 7));
            Bytes next = client.rank() == 0 ? pattern(bytes, 1) : Bytes(bytes);
            const std::span fits(next);
            expect_ok(client.rank() == 0 ? send(client, fits, {1, 3}) : receive(client, fits, {0, 3}), "the next one");
            RUEDA_RANK_CHECK(next == pattern(bytes, 1));
        },
        layout);
}

TEST_CASE("a receive from a rank that shuts down reports that; messages that it sent before arrive", "[threads]") {
    const Layout layout = GENERATE("", "ab", "aab");
    const int size = layout.size() > 2 ? 3 : 2;
    check(
        size,
        [](RankContext&, RuntimeClient& client) {
            const int leaver = client.size() - 1;
            std::array<int, 1> value{42};
            if (client.rank() == leaver) {
                for (int rank = 0; rank < leaver; ++rank) {
                    expect_ok(send(client, std::span(value), {rank, 1, DType::int32}), "before");
                }
                expect_ok(client.shutdown(), "shutdown");
                const Status late = send(client, std::span(value), {0, 1, DType::int32});
                RUEDA_RANK_EQUAL(expect_failure(late, ErrorCode::not_initialized, "after"),
                                 std::string("send to rank 0, tag 1: rueda::shutdown() has been called on this rank"));
                return;
            }
            std::array<int, 1> received{};
            expect_ok(receive(client, std::span(received), {leaver, 1, DType::int32}), "what was sent before");
            RUEDA_RANK_EQUAL(received[0], 42);
            const std::string gone = fmt::format("rank {} has shut down", leaver);
            RUEDA_RANK_EQUAL(expect_failure(receive(client, std::span(received), {leaver, 1, DType::int32}),
                                            ErrorCode::aborted, "receive"),
                             fmt::format("receive from rank {}, tag 1: {}", leaver, gone));
            RUEDA_RANK_EQUAL(expect_failure(send(client, std::span(received), {leaver, 2, DType::int32}),
                                            ErrorCode::aborted, "send"),
                             fmt::format("send to rank {}, tag 2: {}", leaver, gone));
            Bytes large(100'000);
            RUEDA_RANK_EQUAL(
                expect_failure(send(client, std::span(large), {leaver, 2}), ErrorCode::aborted, "large send"),
                fmt::format("send to rank {}, tag 2: {}", leaver, gone));
            if (client.size() == 2) {
                RUEDA_RANK_EQUAL(expect_failure(receive(client, std::span(received), {kAnybody, 1, DType::int32}),
                                                ErrorCode::aborted, "receive from anybody"),
                                 std::string("receive from any rank, tag 1: all other ranks have shut down"));
            }
        },
        layout);
}

TEST_CASE("pending operations of a rank that shuts down end", "[threads]") {
    const Layout layout = GENERATE("", "ab");
    check(
        2,
        [](RankContext&, RuntimeClient& client) {
            if (client.rank() == 0) {
                Bytes memory(100'000);
                auto sent = start_send(client, std::span(memory), {1, 1});
                auto received = start_receive(client, std::span(memory), {1, 2});
                expect_ok(client.shutdown(), "shutdown");
                for (StartedMessage* message : {&sent, &received}) {
                    static_cast<void>(expect_failure(message->wait(), ErrorCode::not_initialized, "pending"));
                }
            } else {  // this receive keeps rank 1 in the job, so rank 0's send stays pending until rank 0 shuts down
                Bytes nothing(1);
                static_cast<void>(
                    expect_failure(receive(client, std::span(nothing), {0, 9}), ErrorCode::aborted, "until it leaves"));
            }
        },
        layout);
}

TEST_CASE("pending operations of a removed process set end, and the world still works", "[threads]") {
    const Layout layout = GENERATE("", "ab");
    check(
        2,
        [](RankContext&, RuntimeClient& world) {
            core::ProcessSets& sets = world.runtime().process_sets();
            auto single = expect_value(world.add_set({0}), "a set, so that the next is another one");
            static_cast<void>(single);
            for (int round = 0; round < 3; ++round) {
                auto set = expect_value(world.add_set({1}), "add");
                const std::int32_t id = sets.ids().back();
                Bytes small(100);
                Bytes large(100'000);
                if (set != nullptr) {
                    auto sent = start_send(*set, std::span(large), {1, 5});
                    auto received = start_receive(*set, std::span(small), {1, 6});
                    expect_ok(sets.remove(id), "remove");
                    const std::string title = fmt::format("process set {} (rank 1)", id);
                    RUEDA_RANK_EQUAL(expect_failure(sent.wait(), ErrorCode::invalid_argument, "send"),
                                     fmt::format("{}: send to rank 1, tag 5: {} has been removed", title, title));
                    static_cast<void>(expect_failure(received.wait(), ErrorCode::invalid_argument, "receive"));
                } else {
                    expect_ok(sets.remove(id), "remove");
                }
                std::array<int, 1> value{world.rank() == 0 ? round : -1};
                const std::span all(value);
                expect_ok(world.rank() == 0 ? send(world, all, {1, 5, DType::int32})
                                            : receive(world, all, {0, 5, DType::int32}),
                          "in the world");
                RUEDA_RANK_EQUAL(value[0], round);
            }
        },
        layout);
}

TEST_CASE("a rank that is killed while others wait for its messages", "[processes]") {
    enum class Waiting : std::uint8_t { receive, small_send, large_send, half_way };
    const auto waiting = GENERATE(Waiting::receive, Waiting::small_send, Waiting::large_send, Waiting::half_way);
    double killed_at = 0;
    const RanksResult result =
        run_clients(3, test_config(),
                    [&](RankContext& context, RuntimeClient& client) {
                        Bytes memory(40'000'000);
                        const std::span all(memory);
                        if (client.rank() == 2) {
                            context.report("pid", ::getpid());
                            if (waiting == Waiting::half_way) {
                                // Rank 1 is killed at a random moment of a send or receive.
                                for (;;) {
                                    auto one = start_send(client, all, {0, 1});
                                    auto other = start_send(client, all, {1, 1});
                                    context.phase("waited for");
                                    expect_ok(one.wait(), "half way");
                                    expect_ok(other.wait(), "half way");
                                }
                            }
                            context.phase("waited for");
                            for (;;) {
                                ::pause();
                            }
                        }
                        Status status;
                        while (status.is_ok()) {
                            status = waiting == Waiting::small_send   ? send(client, all.first(10), {2, 1})
                                     : waiting == Waiting::large_send ? send(client, all, {2, 1})
                                                                      : receive(client, all, {2, 1});
                        }
                        context.report("failed", fmt::format("{:.6f}", now_seconds()));
                        expect_part(expect_failure(status, ErrorCode::aborted, "who waits"), "rank 2 (pid ");
                        expect_part(status.message(), waiting == Waiting::receive || waiting == Waiting::half_way
                                                          ? "receive from rank 2, tag 1: "
                                                          : "send to rank 2, tag 1: ");
                        static_cast<void>(expect_failure(send(client, all.first(1), {1 - client.rank(), 1}),
                                                         ErrorCode::aborted, "between those who are left"));
                    },
                    {.as = RanksAs::processes, .meanwhile = [&](RunningRanks& ranks) {
                         ranks.wait_for_phase(2, "waited for");
                         std::this_thread::sleep_for(std::chrono::milliseconds(50));
                         killed_at = now_seconds();
                         ranks.kill_rank(2, SIGKILL);
                     }});
    INFO(result.text());
    CHECK(result.leaks.empty());
    for (std::size_t rank = 0; rank < 2; ++rank) {
        REQUIRE(result.ranks[rank].end == RankEnd::returned);
        CHECK(std::stod(result.ranks[rank].value("failed")) - killed_at < kPromiseSeconds);
    }
}

TEST_CASE("a send and a receive whose other side does not come are reported by name", "[processes]") {
    base::Config config = test_config();
    config.log_level = base::LogLevel::warning;
    config.stall_warning_seconds = 0.3;
    const RanksResult result =
        run_clients(2, config,
                    [&](RankContext& context, RuntimeClient& client) {
                        Bytes memory(10);
                        if (client.rank() == 1) {
                            client.runtime().begin_busy("loading data");
                            context.phase("busy");
                            context.wait_for_phase(0, "reported");
                            expect_ok(receive(client, std::span(memory), {0, 7}), "at last");
                            expect_ok(send(client, std::span(memory), {0, 8}), "at last");
                            return;
                        }
                        const CapturedErrors errors;
                        context.wait_for_phase(1, "busy");
                        auto sent = start_send(client, std::span(memory), {1, 7});
                        Bytes answer(10);
                        auto received = start_receive(client, std::span(answer), {1, 8});
                        const double begin = now_seconds();
                        const auto is_reported = [&errors](const char* what) {
                            return errors.text().find(what) != std::string::npos;
                        };
                        // If the background thread makes a report between the start of the send and the start of the
                        // receive, only a later report names the receive.
                        while (!is_reported("tag 8: waiting for ") && now_seconds() - begin < 20) {
                            std::this_thread::sleep_for(std::chrono::milliseconds(5));
                        }
                        const std::string text = errors.text();
                        expect_part(text, "waiting for remainder of ranks for more than 0.3 seconds");
                        expect_part(text, "\n  send to rank 1, tag 7; also receive from rank 1, tag 8: waiting for ");
                        expect_part(text, "ready: rank 0; missing: rank 1");
                        expect_part(text, "busy with 'loading data'");
                        context.phase("reported");
                        expect_ok(sent.wait(), "send");
                        expect_ok(received.wait(), "receive");
                    },
                    {.as = RanksAs::processes});
    INFO(result.text());
    CHECK(result.passed());
}

TEST_CASE("a job that is to end for a late tensor ends for a late message", "[threads]") {
    base::Config config = test_config();
    config.stall_warning_seconds = 0.2;
    config.stall_shutdown_seconds = 0.4;
    const RanksResult result = run_clients(2, config, [](RankContext&, RuntimeClient& client) {
        std::array<int, 1> value{};
        const Status status = receive(client, std::span(value), {1 - client.rank(), client.rank(), DType::int32});
        expect_part(expect_failure(status, ErrorCode::aborted, "both receive"), "tag ");
        expect_part(status.message(), "has waited for rank ");
        expect_part(status.message(), "RUEDA_STALL_SHUTDOWN_TIME_SECONDS (0.4)");
    });
    INFO(result.text());
    CHECK(result.passed());
}

TEST_CASE("a wait for a message has its timeout, and the message goes on", "[threads]") {
    check(2, [](RankContext& context, RuntimeClient& client) {
        std::array<int, 1> value{5};
        if (client.rank() == 0) {
            std::array<int, 1> in{};
            auto receiving = start_receive(client, std::span(in), {1, 0, DType::int32});
            static_cast<void>(expect_failure(receiving.wait(0.02), ErrorCode::timeout, "nobody has sent"));
            RUEDA_RANK_CHECK(!receiving.poll());
            context.phase("timed out");
            expect_ok(receiving.wait(), "at last");
            RUEDA_RANK_EQUAL(in[0], 5);
        } else {
            context.wait_for_phase(0, "timed out");
            expect_ok(send(client, std::span(value), {0, 0, DType::int32}), "late");
        }
    });
}

}  // namespace
}  // namespace rueda::tests
