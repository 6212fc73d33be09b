// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The Rueda authors
#include "collectives/host/arena/address_reserve.hpp"

#include <sys/mman.h>
#include <sys/resource.h>

#include <catch2/catch.hpp>

namespace rueda::collectives {
namespace {

constexpr std::uint64_t kMany = 64 * 4096;

std::byte* map_some(std::uint64_t bytes) {
    void* const memory = mmap(nullptr, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    REQUIRE(memory != MAP_FAILED);
    return static_cast<std::byte*>(memory);
}

bool is_taken(const std::byte* page) { return msync(const_cast<std::byte*>(page), 4096, MS_ASYNC) == 0; }

TEST_CASE("addresses are kept for the next one", "[unit]") {
    AddressReserve reserve;
    CHECK(reserve.take(4096) == nullptr);
    std::byte* const first = map_some(kMany);
    reserve.give(first, kMany);
    CHECK(is_taken(first));
    CHECK(is_taken(first + kMany - 4096));
    // the request is larger than the reserve, so take() fails and changes nothing
    CHECK(reserve.take(kMany + 4096) == nullptr);
    CHECK(reserve.take(0) == nullptr);
    CHECK(reserve.take(kMany) == first);
    CHECK(reserve.take(4096) == nullptr);
    void* const again = mmap(first, kMany, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED, -1, 0);
    REQUIRE(again == first);
    first[kMany - 1] = std::byte{1};
    reserve.give(first, kMany);
    CHECK(reserve.take(2 * 4096) == first);  // take() unmaps the rest of the reserve
    CHECK_FALSE(is_taken(first + 2 * 4096));
    munmap(first, 2 * 4096);
}

TEST_CASE("the reserve keeps the larger of two ranges", "[unit]") {
    const bool larger_first = GENERATE(false, true);
    std::byte* const small = map_some(4096);
    std::byte* const large = map_some(kMany);
    {
        AddressReserve reserve;
        for (const bool is_large : {larger_first, !larger_first}) {
            reserve.give(is_large ? large : small, is_large ? kMany : 4096);
        }
        CHECK_FALSE(is_taken(small));
        CHECK(is_taken(large));
    }
    CHECK_FALSE(is_taken(large));
}

TEST_CASE("under a limit of address space nothing is kept", "[unit]") {
    rlimit before{};
    REQUIRE(getrlimit(RLIMIT_AS, &before) == 0);
    if (before.rlim_cur != RLIM_INFINITY) {
        return;
    }
    std::byte* const memory = map_some(kMany);
    rlimit limited = before;
    limited.rlim_cur = RLIM_INFINITY - 1;  // this limit has no effect, but differs from RLIM_INFINITY
    REQUIRE(setrlimit(RLIMIT_AS, &limited) == 0);
    AddressReserve reserve;
    reserve.give(memory, kMany);
    CHECK(setrlimit(RLIMIT_AS, &before) == 0);
    CHECK_FALSE(is_taken(memory));
    CHECK(reserve.take(4096) == nullptr);
}

}  // namespace
}  // namespace rueda::collectives
