// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The Rueda authors

// Tests the 8-bit floats: every pattern, and every float32 that is special for the rounding to 8 bits.
#include <bit>
#include <catch2/catch.hpp>
#include <cmath>
#include <limits>
#include <vector>

#include "buffers.hpp"
#include "ops/cuda/elements.hpp"
#include "reference.hpp"

namespace rueda::ops::test {
namespace {

using cuda::Float8E4M3;
using cuda::Float8E5M2;

std::uint32_t bits_of(float value) { return std::bit_cast<std::uint32_t>(value); }

/// Calls `with` with all positive float32 numbers at which the rounding can change: the numbers of the type, the
/// midpoints between two neighbours, and the limits of float32. Also calls it with the three float32 numbers on each
/// side of each such number.
template <class With>
void for_each_special(DType dtype, With&& with) {
    std::vector<double> places = {0.0, 464, 480, 61440, 65536, 1e30, 3.4028234663852886e38};
    for (std::uint16_t bits = 0; bits < 0x7F; ++bits) {
        const double low = decode(dtype, bits);
        const double high = decode(dtype, static_cast<std::uint16_t>(bits + 1));
        if (std::isfinite(low)) {
            places.push_back(low);
        }
        if (std::isfinite(high)) {
            places.push_back(low + (high - low) / 2);
        }
    }
    for (const double place : places) {
        const std::uint32_t middle = bits_of(static_cast<float>(place));
        for (std::uint32_t bits = middle < 3 ? 0 : middle - 3; bits <= middle + 3; ++bits) {
            with(std::bit_cast<float>(bits));
        }
    }
}

template <class Element>
void check_conversions(DType dtype) {
    for (unsigned pattern = 0; pattern < 256; ++pattern) {
        const auto bits = static_cast<std::uint8_t>(pattern);
        const auto value = static_cast<float>(decode(dtype, bits));
        CAPTURE(name_of(dtype), pattern, value);
        if (std::isnan(value)) {
            CHECK(std::isnan(Element::load(bits)));
        } else {
            CHECK(bits_of(Element::load(bits)) == bits_of(value));
            CHECK(Element::store(value) == bits);
        }
    }
    for_each_special(dtype, [&](float value) {
        CAPTURE(name_of(dtype), value, bits_of(value));
        CHECK(Element::store(value) == encode(dtype, static_cast<double>(value)));
        CHECK(Element::store(-value) == encode(dtype, -static_cast<double>(value)));
    });
    for (const std::uint32_t nan : {0x7FC00000U, 0x7F800001U, 0x7FFFFFFFU, 0xFFC00000U, 0xFF800001U}) {
        CHECK(Element::store(std::bit_cast<float>(nan)) == encode(dtype, NAN));
    }
    CHECK(Element::store(INFINITY) == encode(dtype, INFINITY));
    CHECK(Element::store(-INFINITY) == encode(dtype, -INFINITY));
}

/// Reduces one source for each element of `elements`. Each source repeats its element 300 times, which is more than
/// reduce() processes in one block. Returns the reduced element.
int reduced(const Reduction& reduction, const std::vector<int>& elements) {
    constexpr std::size_t kCount = 300;
    std::vector<std::vector<std::byte>> sources;
    std::vector<const std::byte*> from;
    for (const int element : elements) {
        sources.emplace_back(kCount, static_cast<std::byte>(element));
    }
    for (const std::vector<std::byte>& source : sources) {
        from.push_back(source.data());
    }
    std::vector<std::byte> result(kCount);
    std::byte* const to[] = {result.data()};
    reduce(reduction, from, to, kCount);
    CHECK(result == std::vector<std::byte>(kCount, result[0]));
    return std::to_integer<int>(result[0]);
}

}  // namespace

TEST_CASE("8-bit floats: every pattern, and every float32 next to a place where the rounding changes") {
    check_conversions<Float8E4M3>(DType::float8_e4m3fn);
    check_conversions<Float8E5M2>(DType::float8_e5m2);
}

TEST_CASE("8-bit sums are rounded once, at the end, and overflow to NaN or infinity") {
    const Reduction sum{.dtype = DType::float8_e4m3fn, .op = ReduceOp::sum};
    // 16 + 1 + 1 is a number of the type, and 16 + 1 is not. Rounding after the first addition would give 16.
    CHECK(reduced(sum, {0x58, 0x38, 0x38}) == 0x59);
    CHECK(reduced(sum, {0x7E, 0x58}) == 0x7E);        // 448 + 16 is halfway to 480, and is rounded to 448
    CHECK(reduced(sum, {0x7E, 0x58, 0x01}) == 0x7F);  // 448 + 16 + 2^-9 is above the middle: NaN
    CHECK(reduced(sum, {0xFE, 0xFE}) == 0x7F);        // −896: the NaN is positive
    CHECK(reduced(sum, {0x7E, 0x7E, 0xFE}) == 0x7E);  // intermediate sums do not overflow
    CHECK(reduced(sum, {0x07, 0x01}) == 0x08);        // the sum of two subnormals is a normal number
    CHECK(reduced(sum, {0xFF, 0x38}) == 0x7F);        // NaN
    CHECK(reduced(sum, {0x80, 0x80}) == 0x80);        // −0
    const Reduction sum_of_5{.dtype = DType::float8_e5m2, .op = ReduceOp::sum};
    CHECK(reduced(sum_of_5, {0x48, 0x3C, 0x3C}) == 0x49);  // 8 + 1 + 1 is 10
    CHECK(reduced(sum_of_5, {0x7B, 0x6B}) == 0x7B);        // 57344 + 3584
    CHECK(reduced(sum_of_5, {0x7B, 0x6C}) == 0x7C);        // 57344 + 4096 is halfway, and is rounded to infinity
    CHECK(reduced(sum_of_5, {0xFB, 0xEC}) == 0xFC);
    CHECK(reduced(sum_of_5, {0x7C, 0xFC}) == 0x7E);  // infinity − infinity
    CHECK(reduced(sum_of_5, {0x7D, 0x3C}) == 0x7E);
    const Reduction average{.dtype = DType::float8_e4m3fn, .op = ReduceOp::average, .divisor = 3};
    CHECK(reduced(average, {0x7E, 0x7E, 0x7E}) == 0x7E);
    const Reduction scaled{.dtype = DType::float8_e4m3fn, .op = ReduceOp::sum, .prescale = 2.0, .postscale = 0.25};
    CHECK(reduced(scaled, {0x7E, 0x7E}) == 0x7E);
    const Reduction least{.dtype = DType::float8_e4m3fn, .op = ReduceOp::min};
    CHECK(reduced(least, {0x00, 0x80}) == 0x80);
    CHECK(reduced(least, {0xFE, 0x7F, 0x01}) == 0x7F);
}

TEST_CASE("reductions of all pairs of 8-bit patterns, and in all places of memory") {
    constexpr std::size_t kCount = 65536;
    Bytes high(kCount);
    Bytes low(kCount);
    for (std::size_t i = 0; i < kCount; ++i) {
        high[i] = static_cast<std::byte>(i >> 8);
        low[i] = static_cast<std::byte>(i);
    }
    for (const DType dtype : {DType::float8_e4m3fn, DType::float8_e5m2}) {
        for (const ReduceOp op : kOps) {
            const Reduction reduction{.dtype = dtype, .op = op, .divisor = 2};
            const Bytes want = expected(reduction, {high, low}, kCount);
            Bytes in_place = high;
            Bytes other(kCount);
            const std::byte* const from[] = {in_place.data(), low.data()};
            std::byte* const to[] = {in_place.data(), other.data()};
            reduce(reduction, from, to, kCount);
            CAPTURE(name_of(dtype), name_of(op));
            CHECK((in_place == want));
            CHECK((other == want));
        }
    }
}

TEST_CASE("8-bit floats have no Adasum") {
    for (const DType dtype : {DType::float8_e4m3fn, DType::float8_e5m2}) {
        CHECK_FALSE(is_defined({.dtype = dtype, .op = ReduceOp::adasum}));
        CHECK(is_defined({.dtype = dtype, .op = ReduceOp::average, .prescale = 0.5, .postscale = 2.0}));
    }
}

}  // namespace rueda::ops::test
