// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The Rueda authors
// Tests that every byte of a message arrives at the right receive, and that messages arrive in order.
#include <algorithm>
#include <array>
#include <catch2/catch.hpp>
#include <chrono>
#include <deque>
#include <map>
#include <random>
#include <thread>

#include "tests/core/messages/messages.hpp"

namespace rueda::tests {
namespace {

using Bytes = std::vector<std::uint8_t>;

void check(int size, const std::function<void(RuntimeClient&)>& body, const Layout& layout = {},
           RanksAs as = RanksAs::threads) {
    const RanksResult result = run_clients(
        size, test_config(), [&](RankContext&, RuntimeClient& client) { body(client); }, {.as = as}, layout);
    INFO(layout);
    INFO(result.text());
    CHECK(result.passed());
}

/// Sizes of messages in bytes. An empty message and small ones come first. Then come the largest message that is sent
/// whole to another host, the largest one that is sent whole on one host, and messages that are one byte longer. The
/// last messages have several times the size of the ring.
constexpr std::array<std::size_t, 10> kSizes = {0,        1, 4, 8192, 8193, 65'464, 65'536, 65'537, 262'144 * 3 + 5,
                                                2'000'003};

void there_and_back(RuntimeClient& client) {
    const int other = 1 - client.rank();
    for (const std::size_t size : kSizes) {
        for (std::uint32_t round = 0; round < 3; ++round) {
            Bytes there = pattern(size, round);
            Bytes back(size);
            if (client.rank() == 0) {
                expect_ok(send(client, std::span(there), {other, 5}), "there");
                int sender = -1;
                expect_ok(receive(client, std::span(back), {other, 6}, &sender), "back");
                RUEDA_RANK_EQUAL(sender, 1);
                std::reverse(there.begin(), there.end());
                RUEDA_RANK_CHECK(back == there);
            } else {
                expect_ok(receive(client, std::span(back), {other, 5}), "there");
                RUEDA_RANK_CHECK(back == there);
                std::reverse(back.begin(), back.end());
                expect_ok(send(client, std::span(back), {other, 6}), "back");
            }
        }
    }
}

TEST_CASE("messages of all sizes go there and back", "[threads]") { check(2, there_and_back, GENERATE("", "ab")); }
TEST_CASE("messages of all sizes go there and back between processes", "[processes]") {
    check(2, there_and_back, {}, RanksAs::processes);
}

TEST_CASE("both sides send first: small ones blocking, large ones under way", "[threads]") {
    const Layout layout = GENERATE("", "ab");
    check(
        2,
        [](RuntimeClient& client) {
            const int other = 1 - client.rank();
            for (int round = 0; round < 50; ++round) {
                Bytes mine = pattern(100, round + client.rank());
                Bytes theirs(100);
                expect_ok(send(client, std::span(mine), {other, 1}), "small");
                expect_ok(receive(client, std::span(theirs), {other, 1}), "small");
                RUEDA_RANK_CHECK(theirs == pattern(100, round + other));
            }
            Bytes mine = pattern(1'500'000, client.rank());
            Bytes theirs(mine.size());
            auto sent = start_send(client, std::span(mine), {other, 2});
            expect_ok(receive(client, std::span(theirs), {other, 2}), "large");
            expect_ok(sent.wait(), "large");
            RUEDA_RANK_CHECK(theirs == pattern(mine.size(), other));
        },
        layout);
}

TEST_CASE("tags may be received in another order than they were sent in", "[threads]") {
    const Layout layout = GENERATE("", "ab");
    check(
        2,
        [](RuntimeClient& client) {
            std::array<std::int32_t, 2> values{};
            if (client.rank() == 0) {
                for (std::int32_t tag = -3; tag < 5; ++tag) {
                    values = {tag, tag * 7};
                    expect_ok(send(client, std::span(values), {1, tag, DType::int32}), "send");
                }
            } else {
                for (std::int32_t tag = 4; tag >= -3; --tag) {
                    expect_ok(receive(client, std::span(values), {0, tag, DType::int32}), "receive");
                    RUEDA_RANK_EQUAL(values[0], tag);
                    RUEDA_RANK_EQUAL(values[1], tag * 7);
                }
            }
        },
        layout);
}

TEST_CASE("a rank that waits in an allreduce lets the sender of a small message go on", "[threads]") {
    const Layout layout = GENERATE("", "ab", "abb");
    check(
        static_cast<int>(std::max<std::size_t>(layout.size(), 2)),
        [](RuntimeClient& client) {
            std::array<double, 3> values{1, 2, 3};
            double sum = client.rank();
            const Tensor tensor{&sum, DType::float64, {1}};
            if (client.rank() == 0) {
                expect_ok(send(client, std::span(values), {1, 0, DType::float64}), "send");
            }
            expect_ok(client.allreduce("x", tensor, tensor, {ReduceOp::sum}), "allreduce");
            RUEDA_RANK_EQUAL(sum, client.size() * (client.size() - 1) / 2.0);
            if (client.rank() == 1) {
                std::array<double, 3> received{};
                expect_ok(receive(client, std::span(received), {0, 0, DType::float64}), "receive");
                RUEDA_RANK_CHECK(received == values);
            }
        },
        layout);
}

TEST_CASE("when a rank waits in another operation, senders of messages that arrived before continue", "[threads]") {
    const bool in_join = GENERATE(false, true);
    check(2, [in_join](RuntimeClient& client) {
        std::array<double, 3> values{1, 2, 3};
        double sum = client.rank();
        const Tensor tensor{&sum, DType::float64, {1}};
        if (client.rank() == 0) {
            expect_ok(send(client, std::span(values), {1, 0, DType::float64}), "send");
        } else {
            // 30 ms are usually enough for the message to arrive and be stored.
            std::this_thread::sleep_for(std::chrono::milliseconds(30));
        }
        if (in_join) {
            RUEDA_RANK_CHECK(client.join(true).is_ok());
        } else {
            expect_ok(client.allreduce("x", tensor, tensor, {ReduceOp::sum}), "allreduce");
        }
        if (client.rank() == 1) {
            std::array<double, 3> received{};
            expect_ok(receive(client, std::span(received), {0, 0, DType::float64}), "receive");
            RUEDA_RANK_CHECK(received == values);
        }
    });
}

TEST_CASE("messages of one channel are in the order of the calls, however large they are", "[threads]") {
    const Layout layout = GENERATE("", "ab");
    check(
        2,
        [](RuntimeClient& client) {
            constexpr std::uint32_t kMany = 400;
            const auto size_of_message = [](std::uint32_t i) { return i % 7 == 0 ? 20'000 + i : i % 50; };
            std::vector<Bytes> memory(kMany);
            std::vector<StartedMessage> started;
            for (std::uint32_t i = 0; i < kMany; ++i) {
                memory[i] = client.rank() == 0 ? pattern(size_of_message(i), i) : Bytes(size_of_message(i));
                started.push_back(client.rank() == 0 ? start_send(client, std::span(memory[i]), {1, 9})
                                                     : start_receive(client, std::span(memory[i]), {0, 9}));
            }
            for (std::uint32_t i = kMany; i-- > 0;) {
                expect_ok(started[i].wait(), "one of many");
                RUEDA_RANK_CHECK(memory[i] == pattern(size_of_message(i), i));
            }
        },
        layout);
}

TEST_CASE("a rank sends to itself", "[threads]") {
    check(1, [](RuntimeClient& client) {
        for (const std::size_t size : kSizes) {
            Bytes out = pattern(size, 3);
            Bytes in(size);
            auto receiving = start_receive(client, std::span(in), {0, 1});
            expect_ok(send(client, std::span(out), {0, 1}), "to myself");
            expect_ok(receiving.wait(), "from myself");
            RUEDA_RANK_CHECK(in == out);
            RUEDA_RANK_EQUAL(receiving.sender(), 0);
        }
        Bytes small = pattern(10, 4);
        Bytes in(10);
        expect_ok(send(client, std::span(small), {0, 1}), "before its receive");
        expect_ok(receive(client, std::span(in), {kAnybody, 1}), "after its send");
        RUEDA_RANK_CHECK(in == small);
    });
}

TEST_CASE("a receive from any rank returns the sender", "[threads]") {
    const Layout layout = GENERATE("", "aabb", "abcd");
    check(
        4,
        [](RuntimeClient& client) {
            constexpr int kEach = 30;
            if (client.rank() != 0) {
                std::vector<Bytes> memory;
                for (int i = 0; i < kEach; ++i) {
                    memory.push_back(pattern(i % 10 == 9 ? 30'000 : 40, client.rank() * 100 + i));
                }
                std::vector<StartedMessage> sent;
                for (int i = 0; i < kEach; ++i) {
                    sent.push_back(start_send(client, std::span(memory[static_cast<std::size_t>(i)]), {0, i % 10}));
                }
                for (StartedMessage& message : sent) {
                    expect_ok(message.wait(), "send");
                }
                return;
            }
            for (int tag = 0; tag < 10; ++tag) {
                std::map<int, int> next;
                for (int i = 0; i < 3 * kEach / 10; ++i) {
                    Bytes in(tag == 9 ? 30'000 : 40);
                    int sender = -1;
                    expect_ok(receive(client, std::span(in), {kAnybody, tag}, &sender), "receive");
                    RUEDA_RANK_CHECK(in == pattern(in.size(), sender * 100 + tag + 10 * next[sender]++));
                }
                RUEDA_RANK_EQUAL(next.size(), 3U);
            }
        },
        layout);
}

TEST_CASE("messages from resident memory into resident and private memory", "[threads]") {
    check(2, [](RuntimeClient& client) {
        for (const std::size_t size : {100UL, 8193UL, 5'000'000UL}) {
            const Bytes expected = pattern(size, 8);
            void* memory = expect_value(client.allocate(size), "allocate");
            const std::span<std::uint8_t> resident(static_cast<std::uint8_t*>(memory), size);
            if (client.rank() == 0) {
                std::copy(expected.begin(), expected.end(), resident.begin());
                expect_ok(send(client, resident, {1, 0}), "to resident memory");
                expect_ok(send(client, resident, {1, 0}), "to private memory");
            } else {
                Bytes in(size);
                expect_ok(receive(client, resident, {0, 0}), "into resident memory");
                RUEDA_RANK_CHECK(std::equal(resident.begin(), resident.end(), expected.begin()));
                expect_ok(receive(client, std::span(in), {0, 0}), "into private memory");
                RUEDA_RANK_CHECK(in == expected);
            }
            expect_ok(client.deallocate(memory), "deallocate");
        }
    });
}

/// Every rank sends random messages to random ranks, and receives the messages for itself. The calls have a random
/// order and are mixed with allreduces. All ranks compute the same plan from the seed.
void everything_at_random(RuntimeClient& client, std::uint32_t seed) {
    struct Planned {
        int from, to;
        std::int32_t tag;
        std::size_t bytes;
        std::uint32_t number;
    };
    std::mt19937 plan(seed);
    std::mt19937 order(seed * 31 + static_cast<std::uint32_t>(client.rank()));
    const auto size = static_cast<std::uint32_t>(client.size());
    std::vector<Planned> planned;
    for (std::uint32_t i = 0; i < 300; ++i) {
        const std::size_t bytes = plan() % 10 == 0 ? plan() % 400'000 : plan() % 300;
        planned.push_back({static_cast<int>(plan() % size), static_cast<int>(plan() % size),
                           static_cast<std::int32_t>(plan() % 4), bytes, i});
    }
    // The calls of each channel (peer and tag) in their order. Each step makes the next call of a random channel.
    std::map<std::tuple<bool, int, std::int32_t>, std::deque<Planned>> calls;
    for (const Planned& message : planned) {
        if (message.from == client.rank()) {
            calls[{true, message.to, message.tag}].push_back(message);
        }
        if (message.to == client.rank()) {
            calls[{false, message.from, message.tag}].push_back(message);
        }
    }
    struct UnderWay {
        Planned planned;
        bool sends;
        Bytes bytes;
        StartedMessage message;
    };
    std::deque<UnderWay> under_way;
    std::size_t started = 0;
    while (!calls.empty()) {
        auto channel = std::next(calls.begin(), static_cast<std::ptrdiff_t>(order() % calls.size()));
        const Planned next = channel->second.front();
        const bool sends = std::get<0>(channel->first);
        channel->second.pop_front();
        if (channel->second.empty()) {
            calls.erase(channel);
        }
        Bytes bytes = sends ? pattern(next.bytes, next.number) : Bytes(next.bytes);
        const std::span<std::uint8_t> memory(bytes);
        const MessageTo to{sends ? next.to : next.from, next.tag};
        auto message = sends ? start_send(client, memory, to) : start_receive(client, memory, to);
        under_way.push_back({next, sends, std::move(bytes), std::move(message)});
        if (++started % 17 == 0) {
            static_cast<void>(under_way[order() % under_way.size()].message.poll());
        }
    }
    double sum = 1;
    const Tensor tensor{&sum, DType::float64, {1}};
    expect_ok(client.allreduce("between", tensor, tensor, {ReduceOp::sum}), "allreduce");
    RUEDA_RANK_EQUAL(sum, static_cast<double>(client.size()));
    std::shuffle(under_way.begin(), under_way.end(), order);
    for (UnderWay& one : under_way) {
        expect_ok(one.message.wait(), "one of many");
        RUEDA_RANK_CHECK(one.bytes == pattern(one.planned.bytes, one.planned.number));
    }
}

TEST_CASE("all send to all at random", "[threads]") {
    const Layout layout = GENERATE("", "aabb", "abc");
    const auto size = layout.empty() ? 4 : static_cast<int>(layout.size());
    for (std::uint32_t seed = 1; seed <= 3; ++seed) {
        check(
            size, [seed](RuntimeClient& client) { everything_at_random(client, seed); }, layout);
    }
}
TEST_CASE("all send to all at random, between processes", "[processes]") {
    check(
        4, [](RuntimeClient& client) { everything_at_random(client, 77); }, {}, RanksAs::processes);
}

TEST_CASE("several threads of a rank send and receive at once", "[threads]") {
    check(2, [](RuntimeClient& client) {
        const int other = 1 - client.rank();
        std::array<Status, 4> ends;
        std::vector<std::thread> threads;
        for (std::int32_t tag = 0; tag < 4; ++tag) {
            threads.emplace_back([&, tag] {
                Status& end = ends[static_cast<std::size_t>(tag)];
                for (std::int32_t i = 0; i < 100 && end.is_ok(); ++i) {
                    Bytes out = pattern(static_cast<std::size_t>(i * 970 % 20'000), i + tag);
                    Bytes in(out.size());
                    auto sent = start_send(client, std::span(out), {other, tag});
                    const Status received = receive(client, std::span(in), {other, tag});
                    end = sent.wait();
                    end = !received.is_ok() ? received : in != out ? Status(ErrorCode::internal, "other bytes") : end;
                }
            });
        }
        for (std::thread& thread : threads) {
            thread.join();
        }
        for (const Status& end : ends) {
            expect_ok(end, "a thread");
        }
    });
}

TEST_CASE("messages of a process set do not match those of the world", "[threads]") {
    const Layout layout = GENERATE("", "aabb");
    check(
        4,
        [](RuntimeClient& world) {
            auto set = expect_value(world.add_set({1, 3}), "the set");
            if (world.rank() == 1) {
                std::array<int, 1> one{11};
                std::array<int, 1> two{22};
                expect_ok(send(world, std::span(one), {3, 0, DType::int32}), "in the world");
                expect_ok(send(*set, std::span(two), {3, 0, DType::int32}), "in the set");
            } else if (world.rank() == 3) {
                std::array<int, 1> value{};
                int sender = -1;
                expect_ok(receive(*set, std::span(value), {kAnybody, 0, DType::int32}, &sender), "in the set");
                RUEDA_RANK_EQUAL(value[0], 22);
                RUEDA_RANK_EQUAL(sender, 1);
                expect_ok(receive(world, std::span(value), {1, 0, DType::int32}), "in the world");
                RUEDA_RANK_EQUAL(value[0], 11);
            }
        },
        layout);
}

}  // namespace
}  // namespace rueda::tests
