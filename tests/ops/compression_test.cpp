// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The Rueda authors
#include "ops/compression.hpp"

#include <bit>
#include <catch2/catch.hpp>
#include <cmath>
#include <cstring>
#include <limits>
#include <random>
#include <vector>

#include "buffers.hpp"
#include "reference.hpp"

namespace rueda::ops::test {
namespace {

constexpr Compressed kWays[] = {{DType::float32, Compression::fp16},
                                {DType::float32, Compression::bf16},
                                {DType::float64, Compression::fp16},
                                {DType::float64, Compression::bf16}};
constexpr ReduceOp kCombined[] = {ReduceOp::sum, ReduceOp::min, ReduceOp::max, ReduceOp::product};

DType halves_of(const Compressed& way) {
    return way.compression == Compression::fp16 ? DType::float16 : DType::bfloat16;
}

template <class T>
Bytes bytes_of(const std::vector<T>& elements) {
    const auto* const begin = reinterpret_cast<const std::byte*>(elements.data());
    return {begin, begin + elements.size() * sizeof(T)};
}

/// Returns an element of float32 or float64 as a double.
double value_at(DType dtype, const Bytes& elements, std::size_t i) {
    if (dtype == DType::float64) {
        double value = 0;
        std::memcpy(&value, elements.data() + i * sizeof(value), sizeof(value));
        return value;
    }
    float value = 0;
    std::memcpy(&value, elements.data() + i * sizeof(value), sizeof(value));
    return value;
}

std::uint16_t half_at(const Bytes& halves, std::size_t i) {
    std::uint16_t bits = 0;
    std::memcpy(&bits, halves.data() + i * sizeof(bits), sizeof(bits));
    return bits;
}

/// Computes the expected 16-bit numbers by a search for the nearest number (reference.hpp).
Bytes nearest(const Compressed& way, const Bytes& elements) {
    std::vector<std::uint16_t> halves;
    for (std::size_t i = 0; i < elements.size() / size_of(way.dtype); ++i) {
        const double value = value_at(way.dtype, elements, i);
        const std::uint16_t nan = way.compression == Compression::fp16 ? 0x7E00 : 0x7FC0;
        halves.push_back(std::isnan(value) ? nan : encode(halves_of(way), value));
    }
    return bytes_of(halves);
}

/// Computes the expected values of 16-bit numbers, each multiplied once by `factor`.
Bytes widened(const Compressed& way, const Bytes& halves, double factor = 1.0) {
    std::vector<Bytes> values;
    if (way.dtype == DType::float32) {
        std::vector<float> wide;
        for (std::size_t i = 0; i < halves.size() / 2; ++i) {
            wide.push_back(static_cast<float>(decode(halves_of(way), half_at(halves, i))));
        }
        values.push_back(bytes_of(wide));
    } else {
        std::vector<double> wide;
        for (std::size_t i = 0; i < halves.size() / 2; ++i) {
            wide.push_back(decode(halves_of(way), half_at(halves, i)));
        }
        values.push_back(bytes_of(wide));
    }
    return expected({.dtype = way.dtype, .op = ReduceOp::sum, .postscale = factor}, values, halves.size() / 2);
}

Bytes compressed(const Compressed& way, const Bytes& elements, std::size_t shift = 0) {
    const std::size_t count = elements.size() / size_of(way.dtype);
    Buffer from(elements, shift, 16);
    Buffer to(count * kCompressedBytes, shift + 1, 16);
    compress(way, from.data(), to.data(), count);
    CHECK(from.holds(elements));
    CHECK((from.canaries_alive() && to.canaries_alive()));
    return {to.data(), to.data() + count * kCompressedBytes};
}

Bytes expanded(const Compressed& way, const Bytes& halves, double factor, std::size_t shift = 0) {
    const std::size_t count = halves.size() / kCompressedBytes;
    Buffer from(halves, shift, 16);
    Buffer to(count * size_of(way.dtype), shift + 1, 16);
    expand(way, from.data(), to.data(), factor, count);
    CHECK((from.holds(halves) && from.canaries_alive() && to.canaries_alive()));
    return {to.data(), to.data() + count * size_of(way.dtype)};
}

/// Returns the values next to every 16-bit number and next to every midpoint of two neighbouring 16-bit numbers.
Bytes hard_values(const Compressed& way) {
    std::vector<float> narrow;
    std::vector<double> wide;
    for (std::uint32_t pattern = 0; pattern < 0x10000; ++pattern) {
        const double value = decode(halves_of(way), static_cast<std::uint16_t>(pattern));
        const double next = decode(halves_of(way), static_cast<std::uint16_t>(pattern + 1));
        if (!std::isfinite(value) || !std::isfinite(next)) {
            continue;
        }
        for (const double middle : {value, value / 2 + next / 2}) {
            const auto less = static_cast<float>(middle);
            narrow.insert(narrow.end(), {less, std::nextafter(less, -1e38F), std::nextafter(less, 1e38F)});
            wide.insert(wide.end(), {middle, std::nextafter(middle, -1e300), std::nextafter(middle, 1e300),
                                     middle * (1 + 0x1p-30), middle * (1 - 0x1p-30)});
        }
    }
    return way.dtype == DType::float32 ? bytes_of(narrow) : bytes_of(wide);
}

TEST_CASE("compression rounds to the nearest 16-bit number, ties to even, in one step") {
    for (const Compressed& way : kWays) {
        const Bytes elements = hard_values(way);
        const Bytes halves = nearest(way, elements);
        for_each_target([&](std::int64_t /*target*/) {
            INFO(simd_target() << ", " << name_of(way.dtype) << " as " << name_of(way.compression));
            CHECK((compressed(way, elements) == halves));
        });
    }
}

TEST_CASE("compression of any bits, of any number of elements, at any place") {
    std::mt19937_64 random(11);
    for (const Compressed& way : kWays) {
        for (const std::size_t count : {0U, 1U, 2U, 3U, 7U, 8U, 16U, 31U, 33U, 1000U}) {
            const Bytes elements = random_elements(way.dtype, count, random);
            const Bytes halves = random_elements(halves_of(way), count, random);
            const std::size_t shift = random() % 64;
            for_each_target([&](std::int64_t /*target*/) {
                INFO(simd_target() << ", " << count << " of " << name_of(way.dtype) << " as "
                                   << name_of(way.compression));
                CHECK((compressed(way, elements, shift) == nearest(way, elements)));
                for (const double factor : {1.0, 1.0 / 3, -2.5e4}) {
                    CHECK((expanded(way, halves, factor, shift) == widened(way, halves, factor)));
                }
            });
        }
    }
}

TEST_CASE(
    "compression turns too large values into infinity, too small ones into a signed zero, and any NaN into one NaN") {
    const auto of = [](Compression compression, double value) {
        const Bytes narrow = bytes_of(std::vector<float>{static_cast<float>(value)});
        const Bytes wide = bytes_of(std::vector<double>{value});
        const std::uint16_t bits = half_at(compressed({DType::float64, compression}, wide), 0);
        CHECK(half_at(compressed({DType::float32, compression}, narrow), 0) == bits);
        return bits;
    };
    for_each_target([&](std::int64_t /*target*/) {
        INFO(simd_target());
        CHECK(of(Compression::fp16, 65504) == 0x7BFF);
        CHECK(of(Compression::fp16, 65519) == 0x7BFF);
        CHECK(of(Compression::fp16, 65520) == 0x7C00);
        CHECK(of(Compression::fp16, -1e30) == 0xFC00);
        CHECK(of(Compression::fp16, 0x1p-24) == 0x0001);
        CHECK(of(Compression::fp16, 0x1p-25) == 0x0000);  // halfway between two numbers, rounded to even
        CHECK(of(Compression::fp16, -0x1.8p-25) == 0x8001);
        CHECK(of(Compression::fp16, -1e-30) == 0x8000);
        CHECK(of(Compression::fp16, -0.0) == 0x8000);
        CHECK(of(Compression::bf16, 65520) == 0x4780);
        CHECK(of(Compression::bf16, 0x1.FEp127) == 0x7F7F);
        CHECK(of(Compression::bf16, 0x1.FFp127) == 0x7F80);
        CHECK(of(Compression::bf16, 0x1p-133) == 0x0001);
        CHECK(of(Compression::bf16, -0x1p-134) == 0x8000);
        CHECK(of(Compression::fp16, -std::numeric_limits<double>::infinity()) == 0xFC00);
        CHECK(of(Compression::bf16, std::numeric_limits<double>::infinity()) == 0x7F80);
        CHECK(of(Compression::fp16, -std::numeric_limits<double>::quiet_NaN()) == 0x7E00);
        CHECK(of(Compression::bf16, -std::numeric_limits<double>::quiet_NaN()) == 0x7FC0);
        // Most of these doubles have no equal in float32. Some are beyond float32's range. Others are close to the
        // middle between two 16-bit numbers: if they were first rounded to float32, they would lie exactly in the
        // middle.
        const auto of_double = [](Compression compression, double value) {
            return half_at(compressed({DType::float64, compression}, bytes_of(std::vector<double>{value})), 0);
        };
        CHECK(of_double(Compression::fp16, 1e300) == 0x7C00);
        CHECK(of_double(Compression::bf16, -1e300) == 0xFF80);
        CHECK(of_double(Compression::bf16, 1e-300) == 0x0000);
        CHECK(of_double(Compression::fp16, 1 + 0x1p-11) == 0x3C00);
        CHECK(of_double(Compression::fp16, 1 + 0x1p-11 + 0x1p-50) == 0x3C01);
        CHECK(of_double(Compression::bf16, 1 + 0x1p-8 + 0x1p-50) == 0x3F81);
        CHECK(of_double(Compression::bf16, 0x1p-134 + 0x1p-160) == 0x0001);
        CHECK(of_double(Compression::bf16, -0x1p-134 - 0x1p-160) == 0x8001);
        CHECK(of_double(Compression::bf16, 0x1.8p-133) == 0x0002);
    });
}

TEST_CASE("partials are combined in the tensor's dtype, and rounded once") {
    std::mt19937_64 random(12);
    for (const Compressed& way : kWays) {
        for (const ReduceOp op : kCombined) {
            for (const std::size_t sources : {1U, 2U, 3U, 9U}) {
                constexpr std::size_t kCount = 333;
                std::vector<Bytes> halves;
                std::vector<Bytes> wide;
                std::vector<const std::byte*> from;
                for (std::size_t source = 0; source < sources; ++source) {
                    halves.push_back(random_elements(halves_of(way), kCount, random));
                    wide.push_back(widened(way, halves.back()));
                }
                for (const Bytes& source : halves) {
                    from.push_back(source.data());
                }
                const Bytes result = nearest(way, expected({.dtype = way.dtype, .op = op}, wide, kCount));
                for_each_target([&](std::int64_t /*target*/) {
                    INFO(simd_target() << ", " << name_of(op) << " of " << sources << " " << name_of(way.dtype)
                                       << " as " << name_of(way.compression));
                    Buffer to(kCount * kCompressedBytes, 3, 16);
                    reduce_compressed(way, op, from, to.data(), kCount);
                    CHECK(to.holds(result));
                    CHECK(to.canaries_alive());
                });
            }
        }
    }
}

TEST_CASE("the sum of partials of float64 is not rounded to float32 on the way") {
    // 2049 is halfway between two float16 numbers. A sum that was rounded to float32 would lose the 2^-14 that decides
    // the rounding.
    const auto half = [](double value) { return bytes_of(std::vector<std::uint16_t>{encode(DType::float16, value)}); };
    const std::vector<Bytes> values{half(2048), half(1), half(0x1p-14)};
    const std::vector<const std::byte*> from{values[0].data(), values[1].data(), values[2].data()};
    for_each_target([&](std::int64_t /*target*/) {
        INFO(simd_target());
        Bytes result(kCompressedBytes);
        reduce_compressed({DType::float64, Compression::fp16}, ReduceOp::sum, from, result.data(), 1);
        CHECK(half_at(result, 0) == encode(DType::float16, 2050));
        reduce_compressed({DType::float32, Compression::fp16}, ReduceOp::sum, from, result.data(), 1);
        CHECK(half_at(result, 0) == encode(DType::float16, 2048));
    });
}

}  // namespace
}  // namespace rueda::ops::test
