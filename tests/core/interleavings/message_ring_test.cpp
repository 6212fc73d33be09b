// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The Rueda authors
#include "collectives/host/arena/message_ring.hpp"

#include <array>
#include <catch2/catch.hpp>
#include <cstring>

#include "base/shared_memory/attention.hpp"
#include "tests/support/explorer/check_passed.hpp"
#include "tests/support/explorer/explorer.hpp"

/// One rank writes to another rank's ring, and the other rank reads it. The tests check what the reader gets, and that
/// no rank sleeps forever. The futexes have no timeout, so a lost wake-up is a deadlock.
namespace rueda::collectives {
namespace {

using base::AttentionState;
using explorer::Exploration;
using explorer::explore;
using explorer::ExploredAtomics;
using Orders = explorer::Memory;
using Attention = base::Attention<ExploredAtomics>;

constexpr std::uint64_t kRing = 256;
/// A record fills two of the ring's four cache lines, so the third record has to wait for space.
constexpr std::uint64_t kRecord = 64;

/// The steps that a rank takes to avoid a lost wake-up. A test can leave out each of them.
struct Way {
    bool says_that_it_starves = true;
    bool looks_after_starving = true;
    bool knocks = true;
};

struct Ranks {
    Ranks() {
        explorer::label(&state.written, "written");
        explorer::label(&state.near, "near");
        explorer::label(&state.read, "read");
        explorer::label(&state.starved, "starved");
        explorer::label(&reader_door.knocks, "reader's door");
        explorer::label(&writer_door.knocks, "writer's door");
    }
    MessageRingState<ExploredAtomics> state;
    std::array<std::byte, kRing> memory{};
    Doorstep<ExploredAtomics> reader_door;
    Doorstep<ExploredAtomics> writer_door;
    Attention reader_attention;
    Attention writer_attention;
};

/// Does the same as HostLink::knock(): notifies a rank, so that it looks at the rings that it shares with `member`.
void knock(Doorstep<ExploredAtomics>& door, Attention& attention, std::uint32_t member) {
    if (door.knock(member)) {
        if (const AttentionState state = attention.state(); state != AttentionState::awake) {
            attention.ring(state);
        }
    }
}

/// Waits as a caller that drives progress. knock() sets a mark in the rank's `door`, and each turn looks for a mark.
/// The caller sleeps while there is none.
template <class Look>
void wait_until(Doorstep<ExploredAtomics>& door, Attention& attention, Look&& has_done) {
    while (!has_done(/*knocked=*/door.anybody() && door.take() != 0)) {
        attention.sleep_as_caller_while([&] { return !door.anybody(); }, std::chrono::seconds(1));
    }
}

/// Where a writer puts its records: always into the ring, or beside the ring's state if the ring is empty. Records in
/// the ring can also be published in two stretches.
enum class Place : std::uint8_t { ring, ring_in_stretches, near_if_empty };

Result<std::byte*> reserve(MessageRingWriter<ExploredAtomics>& writer, Place place) {
    if (place == Place::near_if_empty) {
        Result<std::byte*> near = writer.reserve_near(kRecord);
        if (!near.is_ok() || near.value() != nullptr) {
            return near;
        }
    }
    return writer.reserve(kRecord);
}

/// Writes `records` records, each of which contains its number.
void write(Ranks& r, std::uint64_t records, Place place) {
    MessageRingWriter<ExploredAtomics> writer(r.state, r.memory.data(), kRing);
    std::uint64_t written = 0;
    // The writer tries to write once at the beginning. It tries again each time the reader notifies it by knock().
    bool first = true;
    wait_until(r.writer_door, r.writer_attention, [&](bool knocked) {
        bool has_room = knocked || std::exchange(first, false);
        while (has_room && written < records) {
            const auto room = reserve(writer, place);
            RUEDA_EXPLORER_REQUIRE(room.is_ok());
            has_room = room.value() != nullptr;
            if (has_room) {
                std::memset(room.value(), static_cast<int>(++written), kRecord);
                if (place == Place::ring_in_stretches) {
                    writer.publish_begin(kRecord - MessageRingRecord::kHeaderBytes);  // one of two cache lines
                }
                writer.publish();
                knock(r.reader_door, r.reader_attention, 0);
            }
        }
        return written == records;
    });
}

void read(Ranks& r, std::uint64_t records) {
    MessageRingReader<ExploredAtomics> reader(r.state, r.memory.data(), kRing);
    std::uint64_t seen = 0;
    wait_until(r.reader_door, r.reader_attention, [&](bool knocked) {
        for (bool more = knocked; more;) {
            const auto front = reader.front();
            RUEDA_EXPLORER_REQUIRE(front.is_ok());
            more = front.value().has_value();
            if (more) {
                ++seen;
                RUEDA_EXPLORER_REQUIRE(front.value()->size() == kRecord);
                RUEDA_EXPLORER_REQUIRE(front.value()->front() == static_cast<std::byte>(seen));
                RUEDA_EXPLORER_REQUIRE(front.value()->back() == static_cast<std::byte>(seen));
                if (reader.pop()) {
                    knock(r.writer_door, r.writer_attention, 1);
                }
            }
        }
        return seen == records;
    });
}

TEST_CASE("a ring with a sleeping writer and a sleeping reader loses nothing, and nobody sleeps for ever", "[unit]") {
    for (const Orders memory : {Orders::sequentially_consistent, Orders::store_buffers}) {
        for (const Place place : {Place::ring, Place::ring_in_stretches, Place::near_if_empty}) {
            // The stretches have more steps, so fewer preemptions keep the number of schedules small.
            const bool in_stretches = place == Place::ring_in_stretches;
            const Exploration result =
                explore<Ranks>([](Ranks&) {}, {[=](Ranks& r) { write(r, 3, place); }, [](Ranks& r) { read(r, 3); }},
                               [](Ranks&) {}, {.memory = memory, .preemptions = in_stretches ? 2U : 3U});
            INFO(result.report);
            INFO(result.schedules);
            CHECK(result.passed());
        }
    }
}

/// Runs a writer that finds the ring full. The writer takes only the steps that are true in `way`. The tests show that
/// each step is necessary.
Exploration starve(const Way& way, Orders memory) {
    return explore<Ranks>([](Ranks& r) { r.state.written.store(kRing, std::memory_order_relaxed); },
                          // The writer takes the steps of MessageRingWriter::reserve() with a full ring. Then it
                          // sleeps.
                          {[=](Ranks& r) {
                               if (r.state.read.load(std::memory_order_seq_cst) != 0) {
                                   return;
                               }
                               if (way.says_that_it_starves) {
                                   r.state.starved.store(1, std::memory_order_seq_cst);
                               }
                               if (way.looks_after_starving && r.state.read.load(std::memory_order_seq_cst) != 0) {
                                   return;
                               }
                               bool woken = false;
                               wait_until(r.writer_door, r.writer_attention,
                                          [&](bool knocked) { return woken = woken || knocked; });
                           },
                           [=](Ranks& r) {  // the steps of MessageRingReader::pop()
                               r.state.read.store(kRing, std::memory_order_seq_cst);
                               const bool starved = r.state.starved.load(std::memory_order_seq_cst) != 0 &&
                                                    r.state.starved.exchange(0, std::memory_order_seq_cst) != 0;
                               if (starved && way.knocks) {
                                   knock(r.writer_door, r.writer_attention, 1);
                               }
                           }},
                          [](Ranks&) {}, {.memory = memory});
}

TEST_CASE("a writer that waits for room is woken, and no step of that can be left out", "[unit]") {
    for (const Orders memory : {Orders::sequentially_consistent, Orders::store_buffers}) {
        const Exploration right = starve({}, memory);
        INFO(right.report);
        CHECK(right.passed());
        for (const Way& way :
             {Way{.says_that_it_starves = false}, Way{.looks_after_starving = false}, Way{.knocks = false}}) {
            CHECK(starve(way, memory).failure == explorer::Failure::deadlock);
        }
    }
}

/// The steps by which a receiver tells the sender of an awaited message that it took the message. A test can change
/// each of them.
struct Taking {
    bool knocks = true;
    bool stores_first = true;  ///< whether the receiver says that it took the message before it knocks
    bool answers_late = true;  ///< whether a receiver that did not take the message at once sends an answer
};

/// Two ranks that exchange one awaited message, as Messenger::run_at_once() does. The answer to a message that was not
/// taken at once is a record in the other ring.
struct Awaited : Ranks {
    MessageRingState<ExploredAtomics> answers;
    std::array<std::byte, kRing> answer_memory{};
};

/// Sends the message, and looks once whether it was taken. If it was not, waits as for a pending operation.
void send_awaited(Awaited& r) {
    MessageRingWriter<ExploredAtomics> writer(r.state, r.memory.data(), kRing);
    MessageRingReader<ExploredAtomics> answers(r.answers, r.answer_memory.data(), kRing);
    const auto room = writer.reserve_near(kRecord);
    RUEDA_EXPLORER_REQUIRE(room.is_ok() && room.value() == r.state.near_place(kRecord));
    std::memset(room.value(), 1, kRecord);
    writer.publish();
    knock(r.reader_door, r.reader_attention, 0);
    const auto is_taken = [&writer] { return writer.is_taken(writer.position()); };
    if (is_taken()) {
        return;
    }
    // True in the first turn. In Messenger, make_busy() lets this turn look at the other rank without a knock.
    bool first = true;
    wait_until(r.writer_door, r.writer_attention, [&](bool knocked) {
        return (knocked || std::exchange(first, false)) && (is_taken() || answers.front().value().has_value());
    });
}

/// Looks once for the message. If the message is there, takes it at once. If it is not, waits for it as for a pending
/// operation, and answers with a record.
void receive_awaited(Awaited& r, const Taking& way) {
    MessageRingReader<ExploredAtomics> reader(r.state, r.memory.data(), kRing);
    if (reader.has_record()) {
        const auto front = reader.front();
        RUEDA_EXPLORER_REQUIRE(front.is_ok() && front.value()->back() == std::byte{1});
        const auto tell = [&] {
            if (way.knocks) {
                knock(r.writer_door, r.writer_attention, 1);
            }
        };
        if (!way.stores_first) {
            tell();
        }
        static_cast<void>(reader.pop_awaited(/*at_once=*/true));
        if (way.stores_first) {
            tell();
        }
        return;
    }
    bool first = true;
    wait_until(r.reader_door, r.reader_attention, [&](bool knocked) {
        if (!knocked && !std::exchange(first, false)) {
            return false;
        }
        const auto front = reader.front();
        RUEDA_EXPLORER_REQUIRE(front.is_ok());
        return front.value().has_value();
    });
    static_cast<void>(reader.pop_awaited(/*at_once=*/false));
    if (way.answers_late) {
        MessageRingWriter<ExploredAtomics> writer(r.answers, r.answer_memory.data(), kRing);
        RUEDA_EXPLORER_REQUIRE(writer.reserve(kRecord).value() != nullptr);
        writer.publish();
        knock(r.writer_door, r.writer_attention, 1);
    }
}

Exploration exchange_awaited(const Taking& way, Orders memory) {
    return explore<Awaited>([](Awaited&) {},
                            {[](Awaited& r) { send_awaited(r); }, [=](Awaited& r) { receive_awaited(r, way); }},
                            [](Awaited&) {}, {.memory = memory, .preemptions = 4});
}

TEST_CASE("the sender of an awaited message learns that it was taken, and no step of that can be left out", "[unit]") {
    for (const Orders memory : {Orders::sequentially_consistent, Orders::store_buffers}) {
        const Exploration right = exchange_awaited({}, memory);
        INFO(right.report);
        INFO(right.schedules);
        CHECK(right.passed());
        for (const Taking& way :
             {Taking{.knocks = false}, Taking{.stores_first = false}, Taking{.answers_late = false}}) {
            CHECK(exchange_awaited(way, memory).failure == explorer::Failure::deadlock);
        }
    }
}

TEST_CASE("two ranks that knock at one door are both heard", "[unit]") {
    struct Door {
        Doorstep<ExploredAtomics> door;
        Attention attention;
        std::array<ExploredAtomics::Atomic<std::uint32_t>, 2> letters;
    };
    for (const Orders memory : {Orders::sequentially_consistent, Orders::store_buffers}) {
        const auto knocker = [](std::uint32_t who) {
            return [who](Door& d) {
                for (std::uint32_t letter = 1; letter <= 2; ++letter) {
                    d.letters[who].store(letter, std::memory_order_seq_cst);
                    knock(d.door, d.attention, who);
                }
            };
        };
        check_passed(explore<Door>(
            [](Door&) {},
            {knocker(0), knocker(1),
             [](Door& d) {
                 std::array<std::uint32_t, 2> seen{};
                 while (seen[0] + seen[1] < 4) {
                     if (const std::uint64_t knocks = d.door.anybody() ? d.door.take() : 0; knocks != 0) {
                         for (std::uint32_t who = 0; who < 2; ++who) {
                             if ((knocks >> who & 1) != 0) {
                                 seen[who] = d.letters[who].load(std::memory_order_seq_cst);
                             }
                         }
                         continue;
                     }
                     d.attention.sleep_as_caller_while([&] { return !d.door.anybody(); }, std::chrono::seconds(1));
                 }
             }},
            [](Door&) {}, {.memory = memory, .preemptions = 3}));
    }
}

}  // namespace
}  // namespace rueda::collectives
