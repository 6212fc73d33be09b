// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The Rueda authors
// Tests small blocking messages between two ranks of a host, which end without a pending operation if both callers
// wait.
#include <array>
#include <catch2/catch.hpp>
#include <chrono>
#include <thread>

#include "tests/conformance/jobs.hpp"
#include "tests/core/messages/messages.hpp"

namespace rueda::tests {
namespace {

using Bytes = std::vector<std::uint8_t>;

collectives::RingState& ring(RuntimeClient& client, std::uint32_t from, std::uint32_t to) {
    return client.runtime().arena()->message_region().state(from, to);
}

/// Whether the receiver took the last awaited message that it has read at once.
bool was_taken_at_once(RuntimeClient& client, std::uint32_t from, std::uint32_t to) {
    return (ring(client, from, to).read.load(std::memory_order_seq_cst) & collectives::RingState::kTaken) != 0;
}

/// Waits until `condition` is true. Fails after a minute.
template <class Condition>
void await(Condition&& condition) {
    const auto deadline = std::chrono::steady_clock::now() + std::chrono::minutes(1);
    while (!condition() && std::chrono::steady_clock::now() < deadline) {
        std::this_thread::sleep_for(std::chrono::milliseconds(1));
    }
    RUEDA_RANK_CHECK(condition());
}

void there_and_back(RuntimeClient& client, std::size_t size, std::uint32_t seed) {
    const int other = 1 - client.rank();
    const Bytes expected = pattern(size, seed);
    Bytes got(size);
    if (client.rank() == 0) {
        Bytes sent = expected;
        expect_ok(send(client, std::span(sent), {other, 5}), "there");
        int sender = -1;
        expect_ok(receive(client, std::span(got), {other, 6}, &sender), "back");
        RUEDA_RANK_EQUAL(sender, 1);
    } else {
        expect_ok(receive(client, std::span(got), {other, 5}), "there");
        expect_ok(send(client, std::span(got), {other, 6}), "back");
    }
    RUEDA_RANK_CHECK(got == expected);
}

/// A rank's first message to another rank is never sent at once. This function exchanges the first messages, so that
/// later messages can be sent at once.
void meet(RuntimeClient& client) { there_and_back(client, 3, 0); }

void check(const std::function<void(RankContext&, RuntimeClient&)>& body, RanksAs as = RanksAs::threads) {
    const RanksResult result = run_clients(2, patient_config(), body, {.as = as});
    INFO(result.text());
    CHECK(result.passed());
}

void many(RankContext&, RuntimeClient& client) {
    constexpr std::array<std::size_t, 12> kSizes = {0,   1,    8,      9,          64,         65,
                                                    100, 1024, 24'576, 24'576 + 1, 2 * 24'576, 65'536};
    for (std::uint32_t round = 0; round < 600; ++round) {
        there_and_back(client, kSizes[round % kSizes.size()], round);
        if (round % 50 == 49) {  // now one rank is late, so that the other one has to sleep
            std::this_thread::sleep_for(std::chrono::milliseconds(client.rank() * (round % 100 == 49 ? 2 : 0)));
        }
    }
}

TEST_CASE("small messages in step arrive, also if a rank is late", "[threads]") { check(many); }
TEST_CASE("small messages in step arrive between processes", "[processes]") { check(many, RanksAs::processes); }

TEST_CASE("a sender that sleeps is woken by a receiver that takes its message at once", "[threads]") {
    check([](RankContext&, RuntimeClient& client) {
        meet(client);
        // The background thread of rank 1 may see the message before rank 1 calls receive(). In this case, receive()
        // does not take the message at once. Therefore the test makes several attempts.
        int taken_at_once = 0;
        for (int round = 0; round < 40; ++round) {
            std::array<int, 2> values{round, -round};
            if (client.rank() == 0) {
                expect_ok(send(client, std::span(values), {1, 9, DType::int32}), "the message");
                continue;
            }
            // Waits until rank 0 sleeps, so that rank 1 has to wake it. With patient_config(), rank 0 would sleep for
            // an hour without a notification.
            auto& attention = client.runtime().arena()->blocks().of(0).attention;
            await([&] { return attention.state() == base::AttentionState::blocked; });
            std::array<int, 2> got{};
            expect_ok(receive(client, std::span(got), {0, 9, DType::int32}), "the message");
            RUEDA_RANK_CHECK((got == std::array{round, -round}));
            taken_at_once += was_taken_at_once(client, 0, 1) ? 1 : 0;
        }
        RUEDA_RANK_CHECK(client.rank() == 0 || taken_at_once > 0);
        // so small a message is not in the ring, but beside the ring's state
        RUEDA_RANK_CHECK(ring(client, 0, 1).near.load(std::memory_order_relaxed) != 0);
    });
}

TEST_CASE("a message with another tag waits for its receive", "[threads]") {
    check([](RankContext&, RuntimeClient& client) {
        meet(client);
        for (int round = 0; round < 20; ++round) {
            std::array<int, 1> first{round};
            std::array<int, 1> second{-round};
            if (client.rank() == 0) {
                expect_ok(send(client, std::span(first), {1, 1, DType::int32}), "tag 1");
                expect_ok(send(client, std::span(second), {1, 2, DType::int32}), "tag 2");
            } else {
                expect_ok(receive(client, std::span(second), {0, 2, DType::int32}), "tag 2");
                expect_ok(receive(client, std::span(first), {0, 1, DType::int32}), "tag 1");
                RUEDA_RANK_EQUAL(first[0], round);
                RUEDA_RANK_EQUAL(second[0], -round);
            }
        }
    });
}

TEST_CASE("a small message and a receive of another size fail on both sides, and the next one works", "[threads]") {
    check([](RankContext& context, RuntimeClient& client) {
        meet(client);
        std::array<int, 2> values{1, 2};
        const auto one = std::span(values).first(1);
        if (client.rank() == 0) {
            context.phase("sends");
            const Status status = send(client, one, {1, 1, DType::int32});
            RUEDA_RANK_CHECK(status.is_ok() || status.code() == ErrorCode::mismatch);
        } else {
            context.wait_for_phase(0, "sends");
            RUEDA_RANK_CHECK(receive(client, std::span(values), {0, 1, DType::int32}).code() == ErrorCode::mismatch);
        }
        meet(client);
    });
}

TEST_CASE("messages at once and started messages keep their order", "[threads]") {
    check([](RankContext&, RuntimeClient& client) {
        meet(client);
        constexpr int kMessages = 200;
        for (int number = 0; number < kMessages; ++number) {
            std::array<int, 1> value{client.rank() == 0 ? number : -1};
            if (client.rank() == 0) {
                if (number % 3 == 0) {
                    std::array<int, 1> next{++number};
                    auto started = start_send(client, std::span(value), {1, 1, DType::int32});
                    expect_ok(send(client, std::span(next), {1, 1, DType::int32}), "a blocking send");
                    expect_ok(started.wait(), "a started send");
                } else {
                    expect_ok(send(client, std::span(value), {1, 1, DType::int32}), "a blocking send");
                }
            } else {
                expect_ok(receive(client, std::span(value), {0, 1, DType::int32}), "a receive");
                RUEDA_RANK_EQUAL(value[0], number);
            }
        }
    });
}

}  // namespace
}  // namespace rueda::tests
