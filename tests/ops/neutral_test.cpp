// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The Rueda authors
#include "ops/neutral.hpp"

#include <array>
#include <catch2/catch.hpp>
#include <random>

#include "buffers.hpp"
#include "reference.hpp"

namespace rueda::ops::test {
namespace {

/// Inserts a source of neutral elements before, between and after the other sources.
TEST_CASE("a source of neutral elements changes no bit of the result of the other sources") {
    std::mt19937_64 random(11);
    constexpr std::size_t kCount = 700;
    for (const DType dtype : kDTypes) {
        for (const ReduceOp op : ops_of(dtype)) {
            INFO(name_of(op) << " of " << name_of(dtype));
            const Reduction reduction{.dtype = dtype, .op = op, .divisor = 3};
            Bytes nothing(kCount * size_of(dtype) + 1);
            std::byte* const unaligned = nothing.data() + 1;
            fill_neutral(reduction, unaligned, kCount);
            CHECK(nothing[0] == std::byte{0});
            const Bytes neutral(nothing.begin() + 1, nothing.end());
            const std::array given = {random_elements(dtype, kCount, random), random_elements(dtype, kCount, random)};
            for (std::size_t others = 1; others <= 2; ++others) {
                const std::vector<Bytes> present(given.begin(), given.begin() + static_cast<std::ptrdiff_t>(others));
                const Bytes wanted = expected(reduction, present, kCount);
                for (std::size_t at = 0; at <= others; ++at) {
                    std::vector<const std::byte*> sources;
                    for (const Bytes& one : present) {
                        sources.push_back(one.data());
                    }
                    sources.insert(sources.begin() + static_cast<std::ptrdiff_t>(at), neutral.data());
                    Bytes result(kCount * size_of(dtype));
                    std::byte* const to = result.data();
                    reduce(reduction, sources, {&to, 1}, kCount);
                    CHECK(result == wanted);
                }
            }
        }
    }
}

TEST_CASE("a sum of nothing but neutral elements and -0 is -0") {
    const Reduction sum{.dtype = DType::float32};
    float neutral = 1;
    fill_neutral(sum, reinterpret_cast<std::byte*>(&neutral), 1);
    const float minus = -0.0F;
    const std::array<const std::byte*, 2> sources{reinterpret_cast<const std::byte*>(&neutral),
                                                  reinterpret_cast<const std::byte*>(&minus)};
    float result = 1;
    std::byte* const to = reinterpret_cast<std::byte*>(&result);
    reduce(sum, sources, {&to, 1}, 1);
    CHECK(result == 0);
    CHECK(std::signbit(result));
}

}  // namespace
}  // namespace rueda::ops::test
