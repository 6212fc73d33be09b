// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The Rueda authors
#include <algorithm>
#include <catch2/catch.hpp>
#include <cstring>
#include <deque>
#include <random>
#include <vector>

#include "collectives/host/arena/message_region.hpp"
#include "collectives/host/arena/message_ring.hpp"

namespace rueda::collectives {
namespace {

using Bytes = std::vector<std::byte>;

/// A ring in the memory of this process, and both of its ends.
struct Ends {
    explicit Ends(std::uint64_t bytes) : memory(bytes) {}

    MessageRingState<base::StdAtomics> state;
    Bytes memory;
    MessageRingWriter<base::StdAtomics> writer{state, memory.data(), memory.size()};
    MessageRingReader<base::StdAtomics> reader{state, memory.data(), memory.size()};
};

TEST_CASE("a ring gives what was written, in order, whatever the sizes", "[unit]") {
    std::mt19937 random(1);
    for (const std::uint64_t size : {256U, 512U, 4096U}) {
        MessageRingState<base::StdAtomics> state;
        Bytes memory(size);
        MessageRingWriter<base::StdAtomics> writer(state, memory.data(), size);
        MessageRingReader<base::StdAtomics> reader(state, memory.data(), size);
        std::deque<Bytes> expected;
        std::uint32_t full = 0;
        std::uint32_t told = 0;
        std::uint32_t near = 0;
        for (int i = 0; i < 20'000; ++i) {
            if (random() % 2 == 0) {
                // half of the records are small enough for the place beside the state
                const std::uint64_t most =
                    random() % 2 == 0 ? std::min<std::uint64_t>(writer.largest(), 128) : writer.largest();
                Bytes record(random() % (most + 1));
                std::generate(record.begin(), record.end(), [&] { return static_cast<std::byte>(random()); });
                auto room = random() % 2 == 0 ? writer.reserve_near(record.size()) : writer.reserve(record.size());
                REQUIRE(room.is_ok());
                if (room.value() != nullptr && room.value() == state.near_place(record.size())) {
                    REQUIRE(expected.empty());
                    ++near;
                } else if (room.value() == nullptr) {
                    room = writer.reserve(record.size());
                    REQUIRE(room.is_ok());
                }
                if (room.value() == nullptr) {
                    REQUIRE(!expected.empty());  // the largest record fits into an empty ring
                    ++full;
                    continue;
                }
                std::copy(record.begin(), record.end(), room.value());
                writer.publish();
                expected.push_back(std::move(record));
            } else {
                const auto front = reader.front();
                REQUIRE(front.is_ok());
                REQUIRE(front.value().has_value() == !expected.empty());
                if (front.value()) {
                    REQUIRE(std::equal(front.value()->begin(), front.value()->end(), expected.front().begin(),
                                       expected.front().end()));
                    expected.pop_front();
                    told += reader.pop() ? 1U : 0U;
                }
            }
        }
        CHECK(full > 100);
        CHECK(near > 100);
        CHECK(told > 100);  // the number of calls of pop() that tell the reader to notify a waiting writer
        CHECK(told <= full);
    }
}

TEST_CASE("a record is beside the state of a ring only if it fits there, and if the ring is empty", "[unit]") {
    constexpr std::uint64_t kRing = 256;
    using State = MessageRingState<base::StdAtomics>;
    State state;
    Bytes memory(kRing);
    MessageRingWriter<base::StdAtomics> writer(state, memory.data(), kRing);
    MessageRingReader<base::StdAtomics> reader(state, memory.data(), kRing);
    const auto is_near = [&](std::uint64_t bytes) {
        return writer.reserve_near(bytes).value() == state.near_place(bytes);
    };
    CHECK(writer.reserve_near(0).value() == nullptr);
    CHECK(writer.reserve_near(State::kNearBytes + 1).value() == nullptr);
    CHECK(is_near(State::kNearBytes));
    writer.publish();
    CHECK(!is_near(1));  // the reader has not read the record before
    REQUIRE(reader.front().value()->size() == State::kNearBytes);
    CHECK(!reader.pop());
    CHECK(is_near(1));
    writer.publish();  // fills the third of four cache lines
    REQUIRE(reader.front().value()->size() == 1);
    CHECK(!reader.pop());
    CHECK(!is_near(State::kNearBytes));  // it would take two cache lines, and the ring has one before its end
    CHECK(is_near(1));
}

TEST_CASE("a record beside the state of a ring is in one cache line, or its second part begins with a line", "[unit]") {
    using State = MessageRingState<base::StdAtomics>;
    State state;
    const auto offset_of = [&](std::size_t bytes) {
        return static_cast<std::size_t>(state.near_place(bytes) - reinterpret_cast<const std::byte*>(&state));
    };
    CHECK(offset_of(State::kNearInOneLine) == 2 * sizeof(std::uint64_t));
    CHECK(offset_of(State::kNearInOneLine) + State::kNearInOneLine == base::kCacheLine);
    CHECK(offset_of(State::kNearInOneLine + 1) + State::kNearInFirstLine == base::kCacheLine);
    CHECK(offset_of(State::kNearBytes) + State::kNearBytes == 2 * base::kCacheLine);
}

TEST_CASE("a reader can read the first bytes of a record while the writer still writes the others", "[unit]") {
    Ends ends(1024);
    auto& [state, memory, writer, reader] = ends;
    REQUIRE(writer.reserve(8).value() != nullptr);
    writer.publish();
    std::byte* const room = writer.reserve(200).value();
    std::memset(room, 0xAA, 125);
    writer.publish_begin(125);  // the reader sees whole cache lines
    CHECK(reader.front().value()->size() == 8);
    CHECK(!reader.pop());
    CHECK(!reader.front().value());
    const auto begun = reader.begun();
    REQUIRE(begun.value()->size() == 200);
    CHECK(reader.written_bytes() == 120);
    CHECK((*begun.value())[119] == std::byte{0xAA});
    writer.publish();
    CHECK(reader.written_bytes() >= 200);
    CHECK(reader.front().value()->size() == 200);
    state.written.store(64);  // fewer bytes than before
    CHECK(!reader.pop());
    CHECK(reader.front().status().code() == ErrorCode::internal);
}

TEST_CASE("a reader that knows the first bytes of a record finds the record when it is complete", "[unit]") {
    Ends ends(1024);
    auto& [state, memory, writer, reader] = ends;
    REQUIRE(writer.reserve(8).value() != nullptr);
    writer.publish();
    REQUIRE(writer.reserve(200).value() != nullptr);
    writer.publish_begin(56);
    CHECK(reader.front().value()->size() == 8);  // this call also loads the count of the second record's first bytes
    CHECK(!reader.pop());
    writer.publish();
    REQUIRE(reader.front().value().has_value());
    CHECK(reader.front().value()->size() == 200);
}

TEST_CASE("a reserved place beside the state of a ring is given up by another reserve", "[unit]") {
    Ends ends(256);
    auto& [state, memory, writer, reader] = ends;
    std::memset(writer.reserve_near(8).value(), 0xAA, 8);
    std::memset(writer.reserve(20).value(), 0xBB, 20);
    writer.publish();
    const auto front = reader.front();
    REQUIRE(front.value()->size() == 20);
    CHECK(front.value()->front() == std::byte{0xBB});
}

TEST_CASE("a reader says whether it took an awaited record at once, until it reads the next one", "[unit]") {
    Ends ends(1024);
    auto& writer = ends.writer;  // a lambda cannot capture a structured binding with clang 14
    auto& reader = ends.reader;
    const auto write = [&] {
        REQUIRE(writer.reserve(8).value() != nullptr);
        writer.publish();
        return writer.position();
    };
    const auto read = [&](auto&& pop) {
        REQUIRE(reader.front().value().has_value());
        CHECK(!pop());
    };
    const std::uint64_t first = write();
    CHECK(!writer.is_taken(first));
    read([&] { return reader.pop_awaited(/*at_once=*/true); });
    CHECK(writer.is_taken(first));
    write();
    read([&] { return reader.pop(); });
    CHECK(writer.is_taken(first));  // the second record is not awaited
    const std::uint64_t third = write();
    CHECK(!writer.is_taken(third));  // the reader has not read it yet
    read([&] { return reader.pop_awaited(/*at_once=*/false); });
    CHECK(!writer.is_taken(third));
    const std::uint64_t fourth = write();
    read([&] { return reader.pop_awaited(/*at_once=*/true); });
    CHECK(writer.is_taken(fourth));
    // The flag is not a part of the count: a record of a whole cache line fits beside the state again.
    CHECK(writer.reserve_near(8).value() == ends.state.near_bytes);
}

TEST_CASE("a writer refuses a count of a ring that a correct reader never stores", "[unit]") {
    constexpr std::uint64_t kRing = 256;
    for (const std::uint64_t count : {std::uint64_t{2}, std::uint64_t{66}, std::uint64_t{192}, ~std::uint64_t{0}}) {
        MessageRingState<base::StdAtomics> state;
        Bytes memory(kRing);
        MessageRingWriter<base::StdAtomics> writer(state, memory.data(), kRing);
        REQUIRE(writer.reserve(64).value() != nullptr);  // takes two cache lines
        writer.publish();
        state.read.store(count);
        CHECK(writer.reserve_near(8).status().code() == ErrorCode::internal);
    }
}

TEST_CASE("a reader refuses counts of a ring that a correct writer never stores", "[unit]") {
    constexpr std::uint64_t kRing = 256;
    for (const bool is_near : {false, true}) {
        for (const std::uint64_t written :
             {std::uint64_t{64}, std::uint64_t{129}, 128 + kRing + 64, std::uint64_t{1} << 40U}) {
            MessageRingState<base::StdAtomics> state;
            Bytes memory(kRing);
            MessageRingWriter<base::StdAtomics> writer(state, memory.data(), kRing);
            MessageRingReader<base::StdAtomics> reader(state, memory.data(), kRing);
            REQUIRE(writer.reserve(64).value() != nullptr);  // takes two cache lines
            writer.publish();
            REQUIRE(reader.front().value().has_value());
            CHECK(!reader.pop());
            if (is_near) {
                state.near.store(MessageRingRecord::near_of(128, 8));
            }
            state.written.store(written);
            CHECK(reader.front().status().code() == ErrorCode::internal);
        }
    }
}

TEST_CASE("a reader refuses a record beside the state of a ring that is longer than the place", "[unit]") {
    constexpr std::uint64_t kRing = 1024;
    for (const std::uint64_t written : {64U, 128U, 192U}) {
        for (std::uint64_t length = 1; length < 256; ++length) {
            MessageRingState<base::StdAtomics> state;
            Bytes memory(kRing);
            MessageRingReader<base::StdAtomics> reader(state, memory.data(), kRing);
            state.near.store(MessageRingRecord::near_of(0, length));
            state.written.store(written);
            const auto front = reader.front();
            // with its header of 8 bytes, a record of 57 bytes takes two cache lines
            const bool fits = length <= MessageRingState<base::StdAtomics>::kNearBytes && (length < 57 || written > 64);
            REQUIRE(front.is_ok() == fits);
            if (fits) {
                REQUIRE(front.value()->data() == state.near_place(length));
                REQUIRE(front.value()->size() == length);
            } else {
                REQUIRE(front.status().code() == ErrorCode::internal);
            }
        }
    }
    // a record must not pass the end of the ring
    MessageRingState<base::StdAtomics> state;
    Bytes memory(kRing);
    MessageRingWriter<base::StdAtomics> writer(state, memory.data(), kRing);
    MessageRingReader<base::StdAtomics> reader(state, memory.data(), kRing);
    for (std::uint64_t position = 0; position < kRing - 64; position += 64) {
        REQUIRE(writer.reserve_near(1).value() == state.near_bytes);
        writer.publish();
        REQUIRE(reader.front().value()->size() == 1);
        CHECK(!reader.pop());
    }
    state.near.store(MessageRingRecord::near_of(kRing - 64, 100));
    state.written.store(kRing + 64);
    CHECK(reader.front().status().code() == ErrorCode::internal);
}

TEST_CASE("the parts of a region do not overlap, and end where they should", "[unit]") {
    for (const std::uint32_t members : {1U, 2U, 5U, 64U}) {
        const std::uint64_t ring_bytes = 16 * 1024;
        const std::uint64_t bytes = MessageRegion::bytes_for(members, ring_bytes);
        std::byte* const base = reinterpret_cast<std::byte*>(std::uintptr_t{1} << 30U);
        const MessageRegion region(base, members, ring_bytes);
        struct Part {
            const void* begin;
            std::uint64_t bytes;
        };
        std::vector<Part> parts{{&region.departures(), 64}};
        for (std::uint32_t from = 0; from < members; ++from) {
            parts.push_back({&region.door(from), sizeof(MessageDoor)});
            for (std::uint32_t to = 0; to < members; ++to) {
                parts.push_back({&region.state(from, to), sizeof(RingState)});
                parts.push_back({region.bytes(from, to), ring_bytes});
            }
        }
        std::sort(parts.begin(), parts.end(), [](const Part& a, const Part& b) { return a.begin < b.begin; });
        const std::byte* end = base;
        for (const Part& part : parts) {
            const auto* const begin = static_cast<const std::byte*>(part.begin);
            REQUIRE(begin >= end);
            REQUIRE(reinterpret_cast<std::uintptr_t>(begin) % 64 == 0);
            end = begin + part.bytes;
        }
        CHECK(end == base + bytes);
    }
    CHECK(MessageRegion::bytes_for(4, 0) == 0);
}

}  // namespace
}  // namespace rueda::collectives
