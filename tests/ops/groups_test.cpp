// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The Rueda authors
#include "ops/groups.hpp"

#include <catch2/catch.hpp>
#include <numeric>
#include <random>

#include "buffers.hpp"
#include "reference.hpp"

namespace rueda::ops::test {
namespace {

using Sizes = GroupSizes;

Bytes in_groups(const Reduction& reduction, const std::vector<Bytes>& sources, const Sizes& sizes, std::size_t count) {
    std::vector<const std::byte*> from;
    for (const Bytes& source : sources) {
        from.push_back(source.data());
    }
    Bytes result(count * size_of(reduction.dtype));
    std::byte* const to = result.data();
    reduce_in_groups(reduction, from, sizes, {&to, 1}, count);
    return result;
}

Bytes of_float16(std::initializer_list<double> values) {
    Bytes bytes(values.size() * 2);
    std::size_t i = 0;
    for (const double value : values) {
        const std::uint16_t bits = encode(DType::float16, value);
        std::memcpy(bytes.data() + 2 * i++, &bits, 2);
    }
    return bytes;
}

}  // namespace

TEST_CASE("groups: every dtype and operation, as the definition says", "[groups]") {
    std::mt19937_64 random(20261121);
    for (const Sizes& sizes : {Sizes{2, 2}, Sizes{3, 1}, Sizes{1, 1, 4}, Sizes{5}}) {
        const std::size_t members = std::accumulate(sizes.begin(), sizes.end(), std::size_t{0});
        for (const DType dtype : kDTypes) {
            for (const ReduceOp op : ops_of(dtype)) {
                for (const bool scaled : {false, dtype != DType::boolean}) {
                    // More than a block of scratch memory, and an odd number at the end.
                    const std::size_t count = 16 * 1024 / sizes.size() / size_of(dtype) + 77;
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
                    CHECK(in_groups(reduction, sources, sizes, count) ==
                          expected_in_groups(reduction, sources, sizes, count));
                }
            }
        }
    }
}

TEST_CASE("groups: every destination, of which some are sources", "[groups]") {
    std::mt19937_64 random(7);
    const std::size_t count = 5000;
    const Reduction reduction{.dtype = DType::float32, .op = ReduceOp::average, .divisor = 3};
    std::vector<Bytes> sources;
    for (int i = 0; i < 3; ++i) {
        sources.push_back(random_elements(DType::float32, count, random));
    }
    const Bytes right = expected_in_groups(reduction, sources, {2, 1}, count);
    Bytes elsewhere(right.size());
    const std::array<const std::byte*, 3> from{sources[0].data(), sources[1].data(), sources[2].data()};
    const std::array<std::byte*, 3> to{sources[0].data(), elsewhere.data(), sources[2].data()};
    const std::array<std::uint32_t, 2> sizes{2, 1};
    reduce_in_groups(reduction, from, sizes, to, count, Store::streaming);
    CHECK(sources[0] == right);
    CHECK(elsewhere == right);
    CHECK(sources[2] == right);
}

TEST_CASE("groups: an average of float16 that fits does not overflow on the way", "[groups]") {
    const std::vector<Bytes> sources(8, of_float16({60000, -60000, 1}));
    const Reduction reduction{.dtype = DType::float16, .op = ReduceOp::average, .divisor = 8};
    CHECK(in_groups(reduction, sources, {4, 4}, 3) == of_float16({60000, -60000, 1}));
    const Reduction by_factor{.dtype = DType::float16, .op = ReduceOp::sum, .postscale = 0.125};
    CHECK(in_groups(by_factor, sources, {4, 4}, 3) == of_float16({60000, -60000, 1}));
}

TEST_CASE("groups: the order of the groups shows in the bits", "[groups]") {
    // (1 + 2^-24) + (2^-24 + 0) in the order of ranks, step by step, is 1: 2^-24 is lost each time.
    std::vector<Bytes> sources;
    for (const float value : {1.0F, 0x1p-24F, 0x1p-24F, 0x1p-24F}) {
        Bytes bytes(4);
        std::memcpy(bytes.data(), &value, 4);
        sources.push_back(bytes);
    }
    const auto sum = [&](const Sizes& sizes) {
        float value = 0;
        const Bytes bytes = in_groups({.dtype = DType::float32, .op = ReduceOp::sum}, sources, sizes, 1);
        std::memcpy(&value, bytes.data(), 4);
        return value;
    };
    CHECK(sum({4}) == 1.0F);
    CHECK(sum({2, 2}) == 1.0F + 0x1p-23F);
}

}  // namespace rueda::ops::test
