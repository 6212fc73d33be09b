// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The Rueda authors
#include "ops/levels.hpp"

#include <catch2/catch.hpp>
#include <numeric>
#include <optional>
#include <random>
#include <vector>

#include "buffers.hpp"
#include "reference.hpp"

namespace rueda::ops::test {
namespace {

using Sizes = GroupSizes;

/// Combines each group of sources into a partial result, and then combines the partial results.
Bytes in_levels(const Reduction& reduction, const std::vector<Bytes>& sources, const Sizes& sizes, std::size_t count) {
    const auto combined = [count](const Reduction& level, const Bytes* from, std::size_t number) {
        std::vector<const std::byte*> pointers;
        for (std::size_t i = 0; i < number; ++i) {
            pointers.push_back(from[i].data());
        }
        Bytes result(count * size_of(level.dtype));
        std::byte* const to = result.data();
        reduce(level, pointers, {&to, 1}, count);
        return result;
    };
    const std::optional<Levels> levels = levels_of(reduction);
    if (!levels) {
        return combined(reduction, sources.data(), sources.size());
    }
    std::vector<Bytes> partials;
    const Bytes* from = sources.data();
    for (const std::uint32_t size : sizes) {
        partials.push_back(combined(levels->within, from, size));
        from += size;
    }
    return combined(levels->across, partials.data(), partials.size());
}

Bytes elements_of(DType dtype, std::initializer_list<double> values) {
    const std::size_t size = size_of(dtype);
    Bytes bytes(values.size() * size);
    std::size_t i = 0;
    for (const double value : values) {
        const std::uint16_t bits = encode(dtype, value);
        std::memcpy(bytes.data() + size * i++, &bits, size);
    }
    return bytes;
}

}  // namespace

TEST_CASE("levels: every dtype and operation, as the definition says", "[levels]") {
    std::mt19937_64 random(20261121);
    for (const Sizes& sizes : {Sizes{2, 2}, Sizes{3, 1}, Sizes{1, 1, 4}, Sizes{5}}) {
        const std::size_t members = std::accumulate(sizes.begin(), sizes.end(), std::size_t{0});
        for (const DType dtype : kDTypes) {
            for (const ReduceOp op : ops_of(dtype)) {
                for (const bool scaled : {false, dtype != DType::boolean}) {
                    // the count is odd, so that elements remain after the last full vector
                    const std::size_t count = 2077;
                    std::vector<Bytes> sources;
                    for (std::size_t i = 0; i < members; ++i) {
                        sources.push_back(random_elements(dtype, count, random));
                    }
                    const Reduction reduction{.dtype = dtype,
                                              .op = op,
                                              .prescale = scaled ? 0.75 : 1.0,
                                              .postscale = scaled ? 1.5 : 1.0,
                                              .divisor = static_cast<int>(members)};
                    CAPTURE(name_of(dtype), name_of(op), scaled, sizes);
                    CHECK(in_levels(reduction, sources, sizes, count) ==
                          expected_in_groups(reduction, sources, sizes, count));
                }
            }
        }
    }
}

TEST_CASE("levels: an average of a type of small range that fits does not overflow on the way", "[levels]") {
    for (const auto& [dtype, large] : {std::pair(DType::float16, 60000.0), std::pair(DType::float8_e4m3fn, 448.0),
                                       std::pair(DType::float8_e5m2, 57344.0)}) {
        CAPTURE(name_of(dtype));
        const Bytes values = elements_of(dtype, {large, -large, 1});
        const std::vector<Bytes> sources(8, values);
        CHECK(in_levels({.dtype = dtype, .op = ReduceOp::average, .divisor = 8}, sources, {4, 4}, 3) == values);
        CHECK(in_levels({.dtype = dtype, .op = ReduceOp::sum, .postscale = 0.125}, sources, {4, 4}, 3) == values);
    }
}

TEST_CASE("levels: the order of the groups shows in the bits", "[levels]") {
    // If the four values are added one after another, the sum is 1, because rounding loses each 2^-24. If they are
    // added in two groups, the sum is 1 + 2^-23, because the second group adds 2^-24 + 2^-24 at once.
    std::vector<Bytes> sources;
    for (const float value : {1.0F, 0x1p-24F, 0x1p-24F, 0x1p-24F}) {
        Bytes bytes(4);
        std::memcpy(bytes.data(), &value, 4);
        sources.push_back(bytes);
    }
    const auto sum = [&](const Sizes& sizes) {
        float value = 0;
        const Bytes bytes = in_levels({.dtype = DType::float32, .op = ReduceOp::sum}, sources, sizes, 1);
        std::memcpy(&value, bytes.data(), 4);
        return value;
    };
    CHECK(sum({4}) == 1.0F);
    CHECK(sum({2, 2}) == 1.0F + 0x1p-23F);
}

}  // namespace rueda::ops::test
