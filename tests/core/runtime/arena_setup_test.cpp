// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The Rueda authors
#include "core/setup/arena_setup.hpp"

#include <catch2/catch.hpp>
#include <utility>

namespace rueda::core {
namespace {

constexpr base::CacheSizes kCaches{2 * base::kMiB, 0};
constexpr std::uint64_t kResident = std::uint64_t{1} << 30;

NegotiationExtent planned(std::uint32_t members, std::uint64_t limit_bytes, std::uint32_t slots = 1024) {
    base::Config config;
    config.arena_limit_bytes = limit_bytes;
    config.slots = slots;
    const Result<ArenaSizes> sizes = plan_arena(config, members, kCaches, kResident, members);
    INFO(sizes.status().message());
    REQUIRE(sizes.is_ok());
    // The planned parts must fit into the arena's memory limit.
    const std::uint64_t cells = sizes.value().plan.cell_bytes * sizes.value().plan.cells_per_rank * members;
    const NegotiationExtent& extent = sizes.value().extent;
    CHECK(std::uint64_t{2} * members * extent.payload_slots * extent.payload_bytes + cells < limit_bytes);
    return extent;
}

TEST_CASE("inputs travel between two to eight ranks, by default in the slots of many names", "[threads]") {
    for (std::uint32_t members = 1; members <= 16; ++members) {
        INFO(members << " ranks");
        const NegotiationExtent extent = planned(members, base::Config().arena_limit_bytes);
        const bool travel = members > 1 && members <= kInlineMembers;
        CHECK((extent.payload_slots > extent.unnamed_slots + 64) == travel);
        CHECK((extent.payload_slots > 0) == travel);
        CHECK(extent.payload_bytes == (!travel ? 0 : members == 2 ? 64 * base::kKiB : 8 * base::kKiB));
    }
}

TEST_CASE("the settings of slots count names, beside those of unnamed operations", "[threads]") {
    for (const auto& [slots, most] : {std::pair(16U, 16U), std::pair(16U, 65536U), std::pair(65536U, 65536U)}) {
        base::Config config;
        config.slots = slots;
        config.slots_max = most;
        config.arena_limit_bytes = std::uint64_t{1} << 30;
        const auto sizes = plan_arena(config, 4, kCaches, kResident, 4);
        REQUIRE(sizes.is_ok());
        const NegotiationExtent& extent = sizes.value().extent;
        CHECK(extent.initial_slots - extent.unnamed_slots == slots);
        CHECK(extent.slots - extent.unnamed_slots == most);
    }
}

TEST_CASE("outputs are written past the caches from 4 MiB on, or if they do not fit into the L3 cache", "[threads]") {
    const auto stream_from = [](std::uint64_t third_level, std::uint32_t members) {
        const auto sizes = plan_arena(base::Config(), members, {2 * base::kMiB, third_level}, kResident, members);
        REQUIRE(sizes.is_ok());
        return sizes.value().plan.stream_from;
    };
    CHECK(stream_from(0, 2) == 4 * base::kMiB);
    CHECK(stream_from(4 * base::kMiB, 2) == 4 * base::kMiB);
    CHECK(stream_from(32 * base::kMiB, 1) == 32 * base::kMiB);
    CHECK(stream_from(32 * base::kMiB, 2) == 16 * base::kMiB);
    CHECK(stream_from(32 * base::kMiB, 16) == 4 * base::kMiB);
}

TEST_CASE("chunks are larger and fewer on processors with core complexes, on one host", "[threads]") {
    const auto planned_on = [](bool has_core_complexes, std::uint32_t job_size) {
        const auto sizes = plan_arena(base::Config(), 2, {2 * base::kMiB, 0, has_core_complexes}, kResident, job_size);
        REQUIRE(sizes.is_ok());
        return sizes.value().plan;
    };
    CHECK(planned_on(false, 2).cell_bytes == 64 * base::kKiB);
    CHECK(planned_on(false, 2).parts == 4);
    CHECK(planned_on(true, 2).cell_bytes == 128 * base::kKiB);
    CHECK(planned_on(true, 2).parts == 2);
    CHECK(planned_on(true, 4).cell_bytes == 64 * base::kKiB);
    CHECK(planned_on(true, 4).parts == 4);
}

TEST_CASE("with less memory smaller inputs travel, and in fewer slots, before none do", "[threads]") {
    for (const std::uint32_t members : {2U, 3U, 8U}) {
        NegotiationExtent more = planned(members, 64 * base::kMiB);
        for (std::uint64_t limit = 60 * base::kMiB; limit >= 12 * base::kMiB; limit -= 4 * base::kMiB) {
            INFO(members << " ranks, " << limit / base::kMiB << " MiB");
            const NegotiationExtent less = planned(members, limit);
            CHECK(less.payload_bytes <= more.payload_bytes);
            CHECK(less.payload_bytes >= 8 * base::kKiB);
            CHECK((less.payload_bytes < more.payload_bytes || less.payload_slots <= more.payload_slots));
            more = less;
        }
    }
    // Payloads are the parts of the arena for inputs in announcements. With less memory, the payloads first become
    // smaller. With even less memory, there are also fewer of them.
    CHECK(planned(2, 24 * base::kMiB).payload_slots == 256);
    CHECK(planned(2, 24 * base::kMiB).payload_bytes == 16 * base::kKiB);
    CHECK(planned(2, 14 * base::kMiB).payload_bytes == 8 * base::kKiB);
    // A table for many names takes memory from the payloads, but leaves some payloads.
    CHECK(planned(2, 64 * base::kMiB, 9000).payload_slots == 256);
    CHECK(planned(2, 8 * base::kMiB).payload_slots < 256);
}

}  // namespace
}  // namespace rueda::core
