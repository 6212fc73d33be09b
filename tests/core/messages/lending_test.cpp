// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The Rueda authors
// If a message lies in resident memory, its receiver reads it directly from this memory. The send must therefore end
// only when no rank reads the memory any more. This must hold even if a rank shuts down or a process set is removed
// during the transfer. The callers in these tests overwrite their memory as soon as their operation ends. A receive
// that reports success must still have all bytes.
#include <unistd.h>

#include <atomic>
#include <catch2/catch.hpp>
#include <cstring>
#include <deque>
#include <latch>
#include <random>
#include <thread>

#include "core/messages/messenger.hpp"
#include "tests/core/messages/messages.hpp"

namespace rueda::tests {
namespace {

using Bytes = std::vector<std::uint8_t>;

constexpr std::uint64_t kResidentBytes = 32 * base::kMiB;
/// A message of this size needs more than one step of its receiver.
constexpr std::size_t kLarge = base::kMiB + 1000;

/// A send or a receive. The caller of a receive checks the received bytes.
struct Call {
    core::Completion completion;
    std::uint8_t* memory = nullptr;
    std::size_t bytes = 0;
    int seed = 0;
    bool sends = false;
    bool is_seen = false;
    Bytes own;

    [[nodiscard]] bool done() const { return completion.done(); }
    [[nodiscard]] bool is_ok() const { return completion.status().is_ok(); }

    /// When the operation has ended, does once what its caller does: a receiver checks the received bytes, and a sender
    /// overwrites the sent bytes.
    void look() {
        if (is_seen || !done()) {
            return;
        }
        is_seen = true;
        if (sends) {
            std::memset(memory, 0xEE, bytes);
        } else if (is_ok() && Bytes(memory, memory + bytes) != pattern(bytes, seed)) {
            throw RankCheckFailed(fmt::format("message {} of {} bytes has come torn", seed, bytes));
        }
    }
};

/// A rank of a host with two ranks. The test calls step() of the rank's Messenger.
class SteppedRank {
public:
    SteppedRank(std::shared_ptr<collectives::Arena> arena, int rank) : arena_(std::move(arena)) {
        group_ = collectives::group_by_host(rank, std::vector(2, collectives::own_facts()));
        group_.job_ranks = {0, 1};
        messenger_ = std::make_unique<core::Messenger>(group_, arena_, nullptr, pending_,
                                                       base::Logger(test_config(), group_.rank));
    }

    Call& send(std::size_t bytes, std::int32_t set, int seed, bool resident = true) {
        Call& call = calls_.emplace_back();
        call.own = pattern(bytes, seed);
        call.memory = call.own.data();
        if (resident) {
            call.memory = reinterpret_cast<std::uint8_t*>(arena_->resident(arena_->rank()) + used_);
            used_ += bytes;
            RUEDA_RANK_CHECK(used_ <= kResidentBytes);
            std::memcpy(call.memory, call.own.data(), bytes);
        }
        return submit(call, true, bytes, set, seed);
    }
    Call& receive(std::size_t bytes, std::int32_t set, int seed) {
        Call& call = calls_.emplace_back();
        call.own.assign(bytes, 0);
        call.memory = call.own.data();
        return submit(call, false, bytes, set, seed);
    }
    void step() {
        static_cast<void>(expect_value(messenger_->step(/*somebody_waits=*/false, /*asks_others=*/false), "a step"));
        look();
    }
    void shut_down() {
        messenger_->shut_down();
        look();
    }
    void forget(std::int32_t set) {
        messenger_->forget(set, failure(ErrorCode::invalid_argument, "process set {} has been removed", set));
        look();
    }
    void fail_all() {
        messenger_->fail_all(failure(ErrorCode::aborted, "the job has ended"));
        look();
    }
    [[nodiscard]] bool all_done() const {
        return std::all_of(calls_.begin(), calls_.end(), [](const Call& call) { return call.done(); });
    }
    [[nodiscard]] int pending() const { return static_cast<int>(pending_.load()); }
    [[nodiscard]] collectives::Arena& arena() { return *arena_; }

private:
    Call& submit(Call& call, bool sends, std::size_t bytes, std::int32_t set, int seed) {
        call.bytes = bytes;
        call.seed = seed;
        call.sends = sends;
        core::MessageRequest request;
        request.sends = sends;
        request.peer = 1 - group_.rank;
        request.tag = seed;
        request.set = std::make_shared<core::SetIdentity>(core::SetIdentity{set, {0, 1}});
        request.bytes = bytes;
        request.memory = reinterpret_cast<std::byte*>(call.memory);
        if (const Status status = messenger_->submit(std::move(request), call.completion); !status.is_ok()) {
            call.completion.complete_one(status);
        }
        return call;
    }
    void look() {
        for (Call& call : calls_) {
            call.look();
        }
    }

    std::shared_ptr<collectives::Arena> arena_;
    collectives::LocalGroup group_;
    std::atomic<std::uint32_t> pending_{0};
    std::deque<Call> calls_;
    std::uint64_t used_ = 0;
    std::unique_ptr<core::Messenger> messenger_;
};

struct Pair {
    Pair() {
        collectives::ArenaPlan plan;
        plan.members = 2;
        plan.negotiation_bytes = 4096;
        plan.cell_bytes = 4096;
        plan.resident_bytes = kResidentBytes;
        plan.ring_bytes = 16 * base::kKiB;
        const base::UniqueFd memory = expect_value(collectives::Arena::create_memory(plan), "the arena");
        for (std::uint32_t rank = 0; rank < 2; ++rank) {
            auto arena =
                expect_value(collectives::Arena::map(base::UniqueFd(dup(memory.value())), plan, rank), "the arena");
            if (rank == 0) {
                arena->initialise();
            }
            ranks.push_back(std::make_unique<SteppedRank>(arena, static_cast<int>(rank)));
        }
    }
    [[nodiscard]] SteppedRank& sender() { return *ranks[0]; }
    [[nodiscard]] SteppedRank& receiver() { return *ranks[1]; }
    void step_both(int times = 8) {
        for (int i = 0; i < times; ++i) {
            sender().step();
            receiver().step();
        }
    }
    /// Makes the receiver read the first part of the message and stop there.
    void begin_reading(const Call& receive) {
        sender().step();
        receiver().step();
        REQUIRE(receive.memory[0] == pattern(1, receive.seed)[0]);
        REQUIRE_FALSE(receive.done());
    }

    std::vector<std::unique_ptr<SteppedRank>> ranks;
};

TEST_CASE("a rank shuts down while its message is read", "[unit]") {
    Pair pair;
    const Call& received = pair.receiver().receive(kLarge, 0, 1);
    const Call& sent = pair.sender().send(kLarge, 0, 1);
    pair.begin_reading(received);
    pair.sender().shut_down();
    for (int i = 0; i < 5; ++i) {
        pair.sender().step();
        REQUIRE_FALSE(sent.done());
    }
    pair.step_both();
    CHECK(received.is_ok());
    REQUIRE(sent.done());
    CHECK(sent.is_ok());
    const Call& later = pair.receiver().receive(kLarge, 0, 2);
    pair.step_both();
    CHECK(later.completion.status().message() == "receive from rank 0, tag 2: rank 0 has shut down");
    CHECK(pair.sender().pending() == 0);
    CHECK(pair.receiver().pending() == 0);
}

TEST_CASE("a rank shuts down before any rank has received its message", "[unit]") {
    Pair pair;
    const Call& sent = pair.sender().send(kLarge, 0, 1);
    pair.sender().step();
    const bool has_come = GENERATE(false, true);
    if (has_come) {
        pair.receiver().step();
    }
    pair.sender().shut_down();
    pair.sender().step();
    CHECK_FALSE(sent.done());
    pair.receiver().step();
    pair.sender().step();
    REQUIRE(sent.done());
    CHECK(sent.completion.status().message() ==
          "send to rank 1, tag 1: rueda::shutdown() has been called on this rank");
    const Call& received = pair.receiver().receive(kLarge, 0, 1);
    pair.step_both();
    CHECK(received.completion.status().message() == "receive from rank 0, tag 1: rank 0 has shut down");
}

TEST_CASE("both ranks shut down, the receiver first or last", "[unit]") {
    Pair pair;
    const bool is_read = GENERATE(false, true);
    const bool sender_first = GENERATE(false, true);
    const Call& sent = pair.sender().send(kLarge, 0, 1);
    if (is_read) {
        pair.begin_reading(pair.receiver().receive(kLarge, 0, 1));
    }
    pair.sender().step();
    for (const bool of_sender : {sender_first, !sender_first}) {
        (of_sender ? pair.sender() : pair.receiver()).shut_down();
    }
    CHECK_FALSE(sent.done());
    pair.step_both(3);
    CHECK(sent.done());
    CHECK(pair.receiver().all_done());
    // The receive ended because the sender had shut down. The send ended earlier, through the sender's own shutdown.
    CHECK(sent.completion.status().code() == ErrorCode::not_initialized);
}

TEST_CASE("a process set is removed while a message in it is read", "[unit]") {
    Pair pair;
    const bool sender_first = GENERATE(false, true);
    const bool is_read = GENERATE(false, true);
    const Call& sent = pair.sender().send(kLarge, 3, 1);
    if (is_read) {
        pair.begin_reading(pair.receiver().receive(kLarge, 3, 1));
    } else {
        pair.step_both();
    }
    if (sender_first) {
        pair.sender().forget(3);
        for (int i = 0; i < 5; ++i) {
            pair.sender().step();
            REQUIRE_FALSE(sent.done());
        }
        pair.receiver().forget(3);
    } else {
        pair.receiver().forget(3);
        pair.step_both();
        // only the receiver has removed the set, so the send is pending until the sender removes it, too
        REQUIRE_FALSE(sent.done());
        pair.sender().forget(3);
        CHECK(sent.done());
    }
    pair.step_both(2);
    REQUIRE(sent.done());
    CHECK(sent.completion.status().code() == ErrorCode::invalid_argument);
    CHECK(pair.receiver().all_done());
    // Other process sets, such as the world, continue to work.
    const Call& next = pair.receiver().receive(kLarge, 0, 2);
    pair.sender().send(kLarge, 0, 2);
    pair.step_both();
    CHECK((next.done() && next.is_ok()));
}

TEST_CASE("a rank is stopped while it reads, until the others have aborted the job", "[unit]") {
    Pair pair;
    const Call& received = pair.receiver().receive(kLarge, 0, 1);
    pair.sender().send(kLarge, 0, 1);
    pair.begin_reading(received);
    pair.sender().arena().control().abort.raise(ErrorCode::aborted, "a rank has died");
    pair.sender().fail_all();  // ends the send, so its caller overwrites the message
    for (int i = 0; i < 8; ++i) {
        pair.receiver().step();
    }
    CHECK_FALSE(received.done());
    pair.receiver().fail_all();
    CHECK(received.completion.status().code() == ErrorCode::aborted);
}

/// Runs random events in a random order. look() throws if a received message contains wrong bytes.
TEST_CASE("random ends of messages that are read where they lie", "[unit]") {
    for (std::uint32_t seed = 0; seed < 100; ++seed) {
        std::mt19937 random(seed);
        Pair pair;
        int next = 0;
        bool has_ended = false;
        INFO("seed " << seed);
        for (int i = 0; i < 60; ++i) {
            SteppedRank& rank = *pair.ranks[random() % 2];
            const std::size_t bytes = random() % 3 == 0 ? kLarge : 9000 + random() % 3 * 60'000;
            const auto set = static_cast<std::int32_t>(random() % 3);
            switch (random() % 16) {
                case 0:
                case 1:
                    if (next < 12) {
                        pair.ranks[0]->send(bytes, set, ++next, random() % 4 != 0);
                        pair.ranks[1]->receive(bytes, set, next);
                    }
                    break;
                case 2:
                    if (next < 12) {
                        // a matching receive is started only in half of the cases
                        pair.ranks[1]->send(bytes, set, ++next);
                        if (random() % 2 == 0) {
                            pair.ranks[0]->receive(bytes, set, next);
                        }
                    }
                    break;
                case 3:
                    if (set != 0) {
                        rank.forget(set);
                    }
                    break;
                case 4:
                    if (random() % 4 == 0) {
                        rank.shut_down();
                    }
                    break;
                case 5:
                    if (random() % 8 == 0) {
                        has_ended = true;
                        rank.arena().control().abort.raise(ErrorCode::aborted, "a rank has died");
                        rank.fail_all();
                    }
                    break;
                default:
                    rank.step();
            }
        }
        if (!has_ended) {
            pair.sender().shut_down();
            pair.receiver().shut_down();
            pair.step_both(30);
        } else {
            pair.sender().fail_all();
            pair.receiver().fail_all();
        }
        CHECK(pair.sender().all_done());
        CHECK(pair.receiver().all_done());
    }
}

/// Each rank has its own thread, so that ThreadSanitizer can check that all reads of the memory happen before the end
/// of the send.
TEST_CASE("the memory of a message is its sender's again when it has been read", "[threads]") {
    const bool shuts_down = GENERATE(true, false);
    Pair pair;
    std::latch is_read(1);
    std::latch has_ended(1);
    std::atomic<bool> receiver_done{false};
    std::string torn;
    bool too_early = false;
    const Call& received = pair.receiver().receive(kLarge, 5, 1);
    const Call& sent = pair.sender().send(kLarge, 5, 1);
    std::thread receiver([&] {
        try {
            while (received.memory[0] == 0) {
                pair.receiver().step();
            }
            is_read.count_down();
            has_ended.wait();
            while (!received.done()) {
                pair.receiver().step();
            }
            pair.receiver().forget(5);
            for (int i = 0; i < 3; ++i) {
                pair.receiver().step();
            }
        } catch (const std::exception& error) {
            torn = error.what();
        }
        receiver_done.store(true);
    });
    std::thread sender([&] {
        pair.sender().step();
        is_read.wait();
        if (shuts_down) {
            pair.sender().shut_down();
        } else {
            pair.sender().forget(5);
        }
        too_early = sent.done();
        has_ended.count_down();
        while (!sent.done() && !receiver_done.load()) {
            pair.sender().step();
        }
        pair.sender().step();
    });
    sender.join();
    receiver.join();
    CHECK(torn.empty());
    CHECK_FALSE(too_early);
    CHECK((sent.done() && sent.is_ok()));
    CHECK((received.done() && received.is_ok()));
}

}  // namespace
}  // namespace rueda::tests
