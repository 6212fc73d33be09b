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
        for (int i = 0; i < 20'000; ++i) {
            if (random() % 2 == 0) {
                Bytes record(random() % (writer.largest() + 1));
                std::generate(record.begin(), record.end(), [&] { return static_cast<std::byte>(random()); });
                const auto room = writer.reserve(record.size());
                REQUIRE(room.is_ok());
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
        CHECK(told > 100);  // counts the notifications of writers that found the ring full
        CHECK(told <= full);
    }
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
