// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The Rueda authors
#include "ops/adasum.hpp"

#include <array>
#include <catch2/catch.hpp>
#include <cmath>
#include <limits>

#include "adasum_reference.hpp"
#include "buffers.hpp"

namespace rueda::ops::test {
namespace {

constexpr std::array kFloats = {DType::float16, DType::bfloat16, DType::float32, DType::float64};

std::vector<const std::byte*> pointers(const std::vector<Bytes>& sources) {
    std::vector<const std::byte*> of;
    for (const Bytes& source : sources) {
        of.push_back(source.data());
    }
    return of;
}

Bytes reduced(const Reduction& reduction, const std::vector<const std::byte*>& sources, std::size_t count) {
    Bytes result(count * size_of(reduction.dtype));
    std::byte* const to = result.data();
    reduce(reduction, sources, {&to, 1}, count);
    return result;
}

Reduction adasum_of(DType dtype) { return {.dtype = dtype, .op = ReduceOp::adasum}; }

/// Returns the values, rounded to the type.
Bytes elements(DType dtype, const std::vector<double>& values) {
    Bytes bytes;
    for (const double value : values) {
        std::array<std::byte, 8> element{};
        if (dtype == DType::float64) {
            std::memcpy(element.data(), &value, 8);
        } else if (dtype == DType::float32) {
            const auto narrow = static_cast<float>(value);
            std::memcpy(element.data(), &narrow, 4);
        } else {
            const std::uint16_t bits = encode(dtype, value);
            std::memcpy(element.data(), &bits, 2);
        }
        bytes.insert(bytes.end(), element.begin(), element.begin() + static_cast<std::ptrdiff_t>(size_of(dtype)));
    }
    return bytes;
}

double tolerance_of(DType dtype) {
    return dtype == DType::float64 ? 1e-13 : dtype == DType::float32 ? 1e-6 : dtype == DType::float16 ? 2e-3 : 1.6e-2;
}

}  // namespace

TEST_CASE("adasum has the bits of its definition on every SIMD target") {
    std::mt19937_64 random(1);
    for_each_target([&](std::int64_t) {
        for (const DType dtype : kFloats) {
            for (const std::size_t ranks : {1U, 2U, 3U, 4U, 5U, 8U, 11U}) {
                for (const std::size_t count : {0U, 1U, 7U, 100U, 1003U, 20011U / static_cast<unsigned>(ranks)}) {
                    std::vector<Bytes> sources;
                    for (std::size_t rank = 0; rank < ranks; ++rank) {
                        sources.push_back(random_gradients(dtype, count, random));
                    }
                    const Reduction reduction{
                        .dtype = dtype, .op = ReduceOp::adasum, .prescale = 0.75, .postscale = 1.5};
                    CAPTURE(name_of(dtype), ranks, count, simd_target());
                    REQUIRE(reduced(reduction, pointers(sources), count) ==
                            expected_adasum(reduction, sources, count, static_cast<std::uint32_t>(ranks), 1));
                }
            }
        }
    });
}

TEST_CASE("adasum is what the pairs of vectors give, up to the rounding of its result") {
    std::mt19937_64 random(2);
    for (const DType dtype : kFloats) {
        for (const std::size_t ranks : {2U, 3U, 4U, 5U, 6U, 7U, 8U, 13U}) {
            std::vector<Bytes> sources;
            std::vector<std::vector<long double>> vectors;
            while (sources.size() < ranks) {
                Bytes source = random_gradients(dtype, 3001, random);
                std::vector<long double> values = values_of(dtype, source);
                if (std::none_of(values.begin(), values.end(), [](long double v) { return std::isnan(v); })) {
                    sources.push_back(std::move(source));
                    vectors.push_back(std::move(values));
                }
            }
            const auto wanted = adasum_of_vectors(vectors);
            const auto found = values_of(dtype, reduced(adasum_of(dtype), pointers(sources), 3001));
            for (std::size_t i = 0; i < wanted.size(); ++i) {
                CAPTURE(name_of(dtype), ranks, i);
                // The tolerance is relative to the result, or absolute if the terms of the sum cancel out.
                REQUIRE(static_cast<double>(found[i]) == Approx(static_cast<double>(wanted[i]))
                                                             .epsilon(tolerance_of(dtype))
                                                             .margin(dtype == DType::float64 ? 1e-13 : 1e-6));
            }
        }
    }
}

TEST_CASE("parallel tensors are averaged, orthogonal ones added, and zero changes nothing") {
    for (const DType dtype : kFloats) {
        CAPTURE(name_of(dtype));
        const Bytes a = elements(dtype, {1, 2, 0, 0});
        const Bytes b = elements(dtype, {0, 0, -3, 4});
        const Bytes zero = elements(dtype, {0, 0, 0, 0});
        CHECK(reduced(adasum_of(dtype), pointers({a, a, a, a}), 4) == a);
        CHECK(reduced(adasum_of(dtype), pointers({a, b}), 4) == elements(dtype, {1, 2, -3, 4}));
        CHECK(reduced(adasum_of(dtype), pointers({a, zero}), 4) == a);
        CHECK(reduced(adasum_of(dtype), pointers({zero, zero, a}), 4) == a);
        CHECK(reduced(adasum_of(dtype), pointers({zero, zero}), 4) == zero);
        CHECK(reduced(adasum_of(dtype), {nullptr, a.data(), nullptr}, 4) == a);
        CHECK(reduced(adasum_of(dtype), {nullptr, nullptr}, 4) == zero);
    }
}

TEST_CASE("a source that is null counts like one of zeros, at its place") {
    std::mt19937_64 random(3);
    for (int i = 0; i < 50; ++i) {
        std::vector<Bytes> sources;
        for (int rank = 0; rank < 5; ++rank) {
            sources.push_back(random_gradients(DType::float32, 333, random));
        }
        std::vector<const std::byte*> present = pointers(sources);
        for (std::size_t rank = 0; rank < sources.size(); ++rank) {
            if (random() % 2 == 0) {
                std::fill(sources[rank].begin(), sources[rank].end(), std::byte{0});
                present[rank] = nullptr;
            }
        }
        const auto with_zeros = values_of(DType::float32, reduced(adasum_of(DType::float32), pointers(sources), 333));
        const auto without = values_of(DType::float32, reduced(adasum_of(DType::float32), present, 333));
        for (std::size_t e = 0; e < without.size(); ++e) {
            REQUIRE((without[e] == with_zeros[e] || (std::isnan(without[e]) && std::isnan(with_zeros[e]))));
        }
    }
}

TEST_CASE("tensors that cancel leave nothing that could explode") {
    std::mt19937_64 random(4);
    const Bytes a = elements(DType::float32, {1, -2, 3, 0.1});
    const Bytes opposite = elements(DType::float32, {-1, 2, -3, -0.1});
    const Bytes c = elements(DType::float32, {5, 6, 7, 8});
    CHECK(reduced(adasum_of(DType::float32), pointers({a, opposite}), 4) == elements(DType::float32, {0, 0, 0, 0}));
    CHECK(reduced(adasum_of(DType::float32), pointers({a, opposite, c, c}), 4) == c);
    // The first two vectors are almost opposite. The result must not become much larger than the vectors.
    for (const double difference : {1e-3, 1e-5, 1e-7, 1e-9, 1e-12, 1e-15}) {
        const Bytes almost = elements(DType::float64, {-1, 2, -3, -0.1 + difference});
        const auto result = values_of(DType::float64, reduced(adasum_of(DType::float64),
                                                              pointers({elements(DType::float64, {1, -2, 3, 0.1}),
                                                                        almost, elements(DType::float64, {5, 6, 7, 8}),
                                                                        elements(DType::float64, {5, 6, 7, 8})}),
                                                              4));
        for (const long double value : result) {
            CAPTURE(difference);
            CHECK(std::abs(value) < 16);
        }
    }
}

TEST_CASE("NaN and infinity in one tensor make all of the result NaN, but beside a tensor of zeros") {
    const double inf = std::numeric_limits<double>::infinity();
    const double nan = std::numeric_limits<double>::quiet_NaN();
    for (const DType dtype : kFloats) {
        CAPTURE(name_of(dtype));
        const Bytes a = elements(dtype, {1, 2, 3});
        const Bytes zero = elements(dtype, {0, 0, 0});
        const Bytes all_nan = elements(dtype, {nan, nan, nan});
        CHECK(reduced(adasum_of(dtype), pointers({a, elements(dtype, {0, nan, 0})}), 3) == all_nan);
        CHECK(reduced(adasum_of(dtype), pointers({a, elements(dtype, {0, inf, 1})}), 3) == all_nan);
        CHECK(reduced(adasum_of(dtype), pointers({zero, elements(dtype, {4, nan, 5})}), 3) ==
              elements(dtype, {4, nan, 5}));
        CHECK(reduced(adasum_of(dtype), pointers({zero, elements(dtype, {4, -inf, 5})}), 3) ==
              elements(dtype, {4, -inf, 5}));
    }
}

TEST_CASE("the dot products of a part do not depend on how it is cut into pieces") {
    std::mt19937_64 random(5);
    for (const DType dtype : kFloats) {
        for (const std::size_t sources : {1U, 2U, 3U, 6U}) {
            constexpr std::size_t kCount = 10007;
            std::vector<Bytes> contents;
            for (std::size_t s = 0; s < sources; ++s) {
                contents.push_back(random_gradients(dtype, kCount, random));
            }
            std::vector<double> whole(pairs_of(sources));
            DotProducts products;
            products.begin(dtype, sources);
            products.add(pointers(contents), kCount);
            products.end(whole);
            for (int i = 0; i < 20; ++i) {
                std::vector<double> pieces(whole.size());
                products.begin(dtype, sources);
                for (std::size_t at = 0; at < kCount;) {
                    const std::size_t count = std::min<std::size_t>(1 + random() % 3000, kCount - at);
                    std::vector<const std::byte*> from = pointers(contents);
                    for (const std::byte*& memory : from) {
                        memory += at * size_of(dtype);
                    }
                    products.add(from, count);
                    at += count;
                }
                products.end(pieces);
                CAPTURE(name_of(dtype), sources);
                REQUIRE(std::memcmp(pieces.data(), whole.data(), whole.size() * sizeof(double)) == 0);
            }
        }
    }
}

}  // namespace rueda::ops::test
