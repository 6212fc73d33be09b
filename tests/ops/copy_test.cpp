// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The Rueda authors
#include <fmt/format.h>

#include <catch2/catch.hpp>

#include "buffers.hpp"

namespace rueda::ops::test {

TEST_CASE("copy moves exactly the bytes named, cached or streaming, at any alignment, on every target") {
    std::mt19937_64 random(8);
    for (const std::size_t bytes : {0u, 1u, 63u, 64u, 1023u, 1024u, 1025u, 4099u, 70000u}) {
        const Bytes content = random_elements(DType::uint8, bytes, random);
        for_each_target([&](std::int64_t /*target*/) {
            for (const Store store : {Store::cached, Store::streaming}) {
                for (const std::size_t shift : {0u, 1u, 31u, 63u}) {
                    INFO(fmt::format("{} bytes, shift {}, {}", bytes, shift, simd_target()));
                    Buffer source(content, 63 - shift, 0);
                    Buffer destination(bytes, shift, 64);
                    copy(destination.data(), source.data(), bytes, store);
                    CHECK(destination.holds(content));
                    CHECK(destination.canaries_alive());
                    copy(destination.data(), destination.data(), bytes, store);  // copies the memory onto itself
                    CHECK(destination.holds(content));
                    CHECK(destination.canaries_alive());
                }
            }
        });
    }
}

}  // namespace rueda::ops::test
