// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The Rueda authors

// Tests values that were computed by hand. reduce_test.cpp tests random values.
#include <fmt/format.h>

#include <bit>
#include <catch2/catch.hpp>
#include <cmath>
#include <limits>
#include <vector>

#include "buffers.hpp"
#include "reference.hpp"

namespace rueda::ops::test {
namespace {

/// Reduces sources of one element each. The element is repeated, so that both vector and scalar code process it.
template <class T>
T reduced(const Reduction& r, const std::vector<T>& elements) {
    constexpr std::size_t kCount = 135;
    std::vector<std::vector<T>> sources;
    std::vector<const std::byte*> from;
    for (const T element : elements) {
        sources.emplace_back(kCount, element);
    }
    for (const std::vector<T>& source : sources) {
        from.push_back(reinterpret_cast<const std::byte*>(source.data()));
    }
    std::vector<T> result(kCount);
    std::byte* const to[] = {reinterpret_cast<std::byte*>(result.data())};
    reduce(r, from, to, kCount);
    for (const T& one : result) {
        REQUIRE(std::memcmp(&one, result.data(), sizeof(T)) == 0);
    }
    return result[0];
}

std::uint32_t bits_of(float value) { return std::bit_cast<std::uint32_t>(value); }

constexpr float kInfinity = std::numeric_limits<float>::infinity();
constexpr float kNan = std::numeric_limits<float>::quiet_NaN();

}  // namespace

TEST_CASE("integer sums wrap, integer averages are exact and truncate toward zero") {
    const Reduction sum8{.dtype = DType::uint8, .op = ReduceOp::sum};
    CHECK(reduced<std::uint8_t>(sum8, {200, 200}) == 144);
    const Reduction average8{.dtype = DType::uint8, .op = ReduceOp::average, .divisor = 2};
    CHECK(reduced<std::uint8_t>(average8, {200, 200}) == 200);
    CHECK(reduced<std::uint8_t>(average8, {200, 201}) == 200);
    const Reduction average_signed{.dtype = DType::int8, .op = ReduceOp::average, .divisor = 2};
    CHECK(reduced<std::int8_t>(average_signed, {-128, -127}) == -127);
    CHECK(reduced<std::int8_t>(average_signed, {-1, 0}) == 0);

    // An average must divide: 49 times the rounded reciprocal of 49 would be less than 1.
    const Reduction by_49{.dtype = DType::int32, .op = ReduceOp::average, .divisor = 49};
    CHECK(reduced<std::int32_t>(by_49, {48, 1}) == 1);
    CHECK(reduced<std::int32_t>(by_49, {-48, -1}) == -1);
    const Reduction average32{.dtype = DType::int32, .op = ReduceOp::average, .divisor = 2};
    CHECK(reduced<std::int32_t>(average32, {2147483647, 2147483646}) == 2147483646);

    constexpr std::int64_t kMax = std::numeric_limits<std::int64_t>::max();
    const Reduction sum64{.dtype = DType::int64, .op = ReduceOp::sum};
    CHECK(reduced<std::int64_t>(sum64, {kMax, 1}) == std::numeric_limits<std::int64_t>::min());
    const Reduction average64{.dtype = DType::int64, .op = ReduceOp::average, .divisor = 3};
    CHECK(reduced<std::int64_t>(average64, {kMax, kMax, kMax}) == kMax);
    CHECK(reduced<std::int64_t>(average64, {-kMax, -kMax, -kMax + 1}) == -kMax + 1);
}

TEST_CASE("integer scale factors multiply in double and truncate twice") {
    const Reduction before{.dtype = DType::int32, .op = ReduceOp::sum, .prescale = 0.5};
    CHECK(reduced<std::int32_t>(before, {3, 5}) == 1 + 2);
    CHECK(reduced<std::int32_t>(before, {-3, -5}) == -1 - 2);
    const Reduction after{.dtype = DType::int32, .op = ReduceOp::sum, .postscale = 0.5};
    CHECK(reduced<std::int32_t>(after, {3, 6}) == 4);
    const Reduction average{.dtype = DType::int32, .op = ReduceOp::average, .postscale = 3.0, .divisor = 2};
    // The exact result is 1.5 × 3 = 4.5, which is truncated once. If the average 1.5 were truncated first, the result
    // would be 1 × 3 = 3.
    CHECK(reduced<std::int32_t>(average, {3, 0}) == 4);
    const Reduction large{.dtype = DType::int64, .op = ReduceOp::max, .prescale = 1e300};
    CHECK(reduced<std::int64_t>(large, {1, 2}) == std::numeric_limits<std::int64_t>::max());
    const Reduction nothing{.dtype = DType::uint8, .op = ReduceOp::max, .prescale = NAN};
    CHECK(reduced<std::uint8_t>(nothing, {9, 7}) == 0);
    const Reduction negative{.dtype = DType::uint8, .op = ReduceOp::sum, .prescale = -1.0};
    CHECK(reduced<std::uint8_t>(negative, {9, 7}) == 0);
}

TEST_CASE("integers of 16 bits and unsigned ones: sums wrap, averages are exact, factors end at the limits") {
    const auto sum = [](DType dtype) { return Reduction{.dtype = dtype, .op = ReduceOp::sum}; };
    const auto mean = [](DType dtype, int divisor) {
        return Reduction{.dtype = dtype, .op = ReduceOp::average, .divisor = divisor};
    };
    const auto scaled = [](DType dtype, double before, double after) {
        return Reduction{.dtype = dtype, .op = ReduceOp::sum, .prescale = before, .postscale = after};
    };
    CHECK(reduced<std::int16_t>(sum(DType::int16), {32767, 1}) == -32768);
    CHECK(reduced<std::uint16_t>(sum(DType::uint16), {65535, 3}) == 2);
    CHECK(reduced<std::uint32_t>(sum(DType::uint32), {4294967295U, 6U}) == 5U);
    CHECK(reduced<std::int16_t>(mean(DType::int16, 2), {-32768, -32767}) == -32767);
    CHECK(reduced<std::uint16_t>(mean(DType::uint16, 3), {65535, 65535, 65534}) == 65534);
    CHECK(reduced<std::uint32_t>(mean(DType::uint32, 2), {4294967295U, 4294967294U}) == 4294967294U);

    constexpr std::uint64_t kTop = std::numeric_limits<std::uint64_t>::max();
    constexpr std::uint64_t kHalf = std::uint64_t{1} << 63;
    CHECK(reduced<std::uint64_t>(sum(DType::uint64), {kTop, 2}) == 1);
    CHECK(reduced<std::uint64_t>(mean(DType::uint64, 3), {kTop, kTop, kTop}) == kTop);
    CHECK(reduced<std::uint64_t>(mean(DType::uint64, 2), {kHalf, kHalf + 3}) == kHalf + 1);
    CHECK(reduced<std::uint64_t>(mean(DType::uint64, 2), {kTop, 0}) == kHalf - 1);
    constexpr std::int64_t kLowest = std::numeric_limits<std::int64_t>::min();
    CHECK(reduced<std::int64_t>(mean(DType::int64, 3), {kLowest, kLowest, kLowest}) == kLowest);
    // The average is truncated toward zero.
    CHECK(reduced<std::int64_t>(mean(DType::int64, 2), {kLowest, kLowest + 1}) == kLowest + 1);

    CHECK(reduced<std::uint64_t>(scaled(DType::uint64, 2.0, 1.0), {kHalf, 0}) == kTop);
    CHECK(reduced<std::uint64_t>(scaled(DType::uint64, 1.0, 0.5), {kHalf, kHalf / 2}) == kHalf / 4 * 3);
    CHECK(reduced<std::uint64_t>(scaled(DType::uint64, -1.0, 1.0), {5, 7}) == 0);
    CHECK(reduced<std::uint32_t>(scaled(DType::uint32, 1e9, 1.0), {5, 0}) == 4294967295U);
    CHECK(reduced<std::int16_t>(scaled(DType::int16, 1.0, -1.0), {-32768, 0}) == 32767);
    CHECK(reduced<std::uint16_t>(scaled(DType::uint16, 0.5, 3.0), {7, 5}) == (3 + 2) * 3);
    CHECK(reduced<std::uint16_t>(scaled(DType::uint16, NAN, 1.0), {7, 5}) == 0);

    // The highest bit of an unsigned number is not a sign.
    CHECK(reduced<std::uint16_t>({.dtype = DType::uint16, .op = ReduceOp::max}, {0x8000, 0x7FFF}) == 0x8000);
    CHECK(reduced<std::uint32_t>({.dtype = DType::uint32, .op = ReduceOp::min}, {0x80000000U, 1U}) == 1U);
    CHECK(reduced<std::uint64_t>({.dtype = DType::uint64, .op = ReduceOp::max}, {kHalf, 1}) == kHalf);
    CHECK(reduced<std::uint64_t>({.dtype = DType::uint64, .op = ReduceOp::min}, {kTop, kHalf}) == kHalf);
    CHECK(reduced<std::uint16_t>({.dtype = DType::uint16, .op = ReduceOp::product}, {65535, 65535}) == 1);
}

TEST_CASE("bool: every byte but 0 is true, and results are 0 and 1, of one source as well") {
    const Reduction all{.dtype = DType::boolean, .op = ReduceOp::min};
    const Reduction any{.dtype = DType::boolean, .op = ReduceOp::max};
    const Reduction times{.dtype = DType::boolean, .op = ReduceOp::product};
    for_each_target([&](std::int64_t /*target*/) {
        INFO(simd_target());
        for (int byte = 0; byte < 256; ++byte) {
            const auto value = static_cast<std::uint8_t>(byte);
            const int truth = byte != 0 ? 1 : 0;
            for (const Reduction& r : {all, any, times}) {
                REQUIRE(reduced<std::uint8_t>(r, {value}) == truth);
                REQUIRE(reduced<std::uint8_t>(r, {value, value}) == truth);
            }
            REQUIRE(reduced<std::uint8_t>(any, {0, value, 0}) == truth);
            REQUIRE(reduced<std::uint8_t>(all, {128, value, 255}) == truth);
            // If bools were multiplied as numbers, 2 * 128 would wrap around to 0.
            REQUIRE(reduced<std::uint8_t>(times, {2, value, 128}) == truth);
        }
    });
}

TEST_CASE("bool has no sum, no average and no factors") {
    for (const ReduceOp op : kOps) {
        const bool adds = op == ReduceOp::sum || op == ReduceOp::average;
        CHECK(is_defined({.dtype = DType::boolean, .op = op}) == !adds);
        CHECK_FALSE(is_defined({.dtype = DType::boolean, .op = op, .prescale = 0.5}));
        CHECK_FALSE(is_defined({.dtype = DType::boolean, .op = op, .postscale = NAN}));
        CHECK(is_defined({.dtype = DType::uint8, .op = op, .prescale = 0.5, .postscale = 2.0}));
    }
}

TEST_CASE("zeros, infinities and NaNs on every target") {
    const Reduction sum{.op = ReduceOp::sum};
    const Reduction min{.op = ReduceOp::min};
    const Reduction max{.op = ReduceOp::max};
    const float negative_nan = std::bit_cast<float>(0xFFC12345u);
    const float signalling_nan = std::bit_cast<float>(0x7F800001u);
    for_each_target([&](std::int64_t /*target*/) {
        INFO(simd_target());
        CHECK(bits_of(reduced<float>(min, {0.0f, -0.0f})) == 0x80000000u);
        CHECK(bits_of(reduced<float>(min, {-0.0f, 0.0f})) == 0x80000000u);
        CHECK(bits_of(reduced<float>(max, {0.0f, -0.0f})) == 0u);
        CHECK(bits_of(reduced<float>(max, {-0.0f, 0.0f})) == 0u);
        CHECK(bits_of(reduced<float>(sum, {-0.0f, -0.0f})) == 0x80000000u);
        CHECK(bits_of(reduced<float>(sum, {-0.0f, 0.0f})) == 0u);
        CHECK(reduced<float>(sum, {kInfinity, 1.0f}) == kInfinity);
        CHECK(bits_of(reduced<float>(sum, {kInfinity, -kInfinity})) == 0x7FC00000u);
        for (const float nan : {kNan, negative_nan, signalling_nan}) {
            for (const Reduction& r : {sum, min, max}) {
                CHECK(bits_of(reduced<float>(r, {nan, 1.0f, -kInfinity})) == 0x7FC00000u);
                CHECK(bits_of(reduced<float>(r, {1.0f, nan, 2.0f})) == 0x7FC00000u);
                CHECK(bits_of(reduced<float>(r, {kInfinity, 0.0f, nan})) == 0x7FC00000u);
                CHECK(bits_of(reduced<float>(r, {nan})) == 0x7FC00000u);
                CHECK(bits_of(reduced<float>(r, {negative_nan, nan})) == 0x7FC00000u);
            }
        }
        // Subnormals must not be flushed to zero. The inputs are half of the smallest normal number, and the smallest
        // number of all.
        CHECK(bits_of(reduced<float>(sum, {std::bit_cast<float>(0x00400000u), std::bit_cast<float>(0x00400000u)})) ==
              0x00800000u);
        CHECK(bits_of(reduced<float>(sum, {std::bit_cast<float>(1u), std::bit_cast<float>(1u)})) == 2u);
    });
}

TEST_CASE("float32 keeps rank order and multiplies once for an average") {
    const Reduction sum{.op = ReduceOp::sum};
    const float big = 16777216.0f;  // 2^24; adding 1 does not change it
    CHECK(reduced<float>(sum, {big, 1.0f, 1.0f}) == big);
    CHECK(reduced<float>(sum, {1.0f, 1.0f, big}) == big + 2.0f);
    const Reduction average{.op = ReduceOp::average, .divisor = 3};
    CHECK(reduced<float>(average, {1.0f, 1.0f, 3.0f}) == 5.0f * static_cast<float>(1.0 / 3.0));
    const Reduction identity{.op = ReduceOp::average, .postscale = 3.0, .divisor = 3};
    CHECK(reduced<float>(identity, {0.1f, 0.2f}) == 0.1f + 0.2f);
}

TEST_CASE("16-bit sums are rounded once, at the end") {
    const Reduction sum16{.dtype = DType::float16, .op = ReduceOp::sum};
    const Reduction sum_b{.dtype = DType::bfloat16, .op = ReduceOp::sum};
    for_each_target([&](std::int64_t /*target*/) {
        INFO(simd_target());
        // float16 can represent 2048 + 1 + 1, but not 2048 + 1. Rounding after the first addition would give 2048.
        CHECK(reduced<std::uint16_t>(sum16, {0x6800, 0x3C00, 0x3C00}) == 0x6801);
        CHECK(reduced<std::uint16_t>(sum16, {0x7BFF, 0x7BFF}) == 0x7C00);  // 65504 + 65504 is infinite
        // Intermediate sums are float32 and do not overflow, so 65504 + 65504 − 65504 is 65504.
        CHECK(reduced<std::uint16_t>(sum16, {0x7BFF, 0x7BFF, 0xFBFF}) == 0x7BFF);
        CHECK(reduced<std::uint16_t>(sum16, {0x7BFF, 0x4BFF}) == 0x7BFF);  // 65504 + 15.99 is rounded to 65504
        // 65504 + 16 is halfway between 65504 and the next number, 65536. Rounding to even gives 65536, which is
        // infinity.
        CHECK(reduced<std::uint16_t>(sum16, {0x7BFF, 0x4C00}) == 0x7C00);
        CHECK(reduced<std::uint16_t>(sum16, {0x0001, 0x0001}) == 0x0002);  // subnormals
        // the sum of these subnormals is a normal number
        CHECK(reduced<std::uint16_t>(sum16, {0x03FF, 0x0001}) == 0x0400);
        CHECK(reduced<std::uint16_t>(sum16, {0xFE01, 0x0001}) == 0x7E00);          // NaN
        CHECK(reduced<std::uint16_t>(sum_b, {0x4380, 0x3F80, 0x3F80}) == 0x4381);  // 256 + 1 + 1
        CHECK(reduced<std::uint16_t>(sum_b, {0x7F7F, 0x7F7F}) == 0x7F80);
        CHECK(reduced<std::uint16_t>(sum_b, {0x7F81, 0x0000}) == 0x7FC0);
    });
}

TEST_CASE("every float16 and bfloat16 pattern survives, and every float32 step between two of them rounds right") {
    for (const DType dtype : {DType::float16, DType::bfloat16}) {
        std::vector<std::uint16_t> patterns(65536);
        std::vector<std::uint16_t> neighbours(65536);
        for (std::size_t i = 0; i < patterns.size(); ++i) {
            patterns[i] = static_cast<std::uint16_t>(i);
            neighbours[i] = static_cast<std::uint16_t>(i ^ 1u);
        }
        const auto as_bytes = [](const std::vector<std::uint16_t>& v) {
            Bytes bytes(v.size() * 2);
            std::memcpy(bytes.data(), v.data(), bytes.size());
            return bytes;
        };
        const std::vector<Bytes> one = {as_bytes(patterns)};
        const std::vector<Bytes> both = {as_bytes(patterns), as_bytes(neighbours)};
        const Reduction identity{.dtype = dtype, .op = ReduceOp::sum};
        // The factor 0.5 gives results that lie halfway between two numbers. With slightly different factors, the
        // results lie on one side of the middle. Factors with 1/512 give subnormals.
        std::vector<Reduction> means;
        for (const double factor : {0.5, 0.5000001, 0.4999999, 0.5 / 512, 0.3 / 512, 0.7}) {
            means.push_back({.dtype = dtype, .op = ReduceOp::sum, .postscale = factor});
        }
        for_each_target([&](std::int64_t /*target*/) {
            INFO(simd_target());
            Bytes result(patterns.size() * 2);
            std::byte* const to[] = {result.data()};
            const std::byte* const from[] = {both[0].data(), both[1].data()};
            reduce(identity, std::span(from, 1), to, patterns.size());
            CHECK((result == expected(identity, one, patterns.size())));
            for (const Reduction& mean : means) {
                reduce(mean, from, to, patterns.size());
                CHECK((result == expected(mean, both, patterns.size())));
            }
        });
    }
}

}  // namespace rueda::ops::test
