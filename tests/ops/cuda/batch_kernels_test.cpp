// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The Rueda authors

// Compares the kernels that copy, scale, convert and fill with functions of ops. The kernels run on the host here.
#include <cmath>
#include <numeric>

#include "launches.hpp"
#include "ops/compression.hpp"
#include "ops/neutral.hpp"

namespace rueda::ops::cuda::test {
namespace {

using ops::test::kDTypes;
using ops::test::ops_of;
using ops::test::random_elements;

constexpr DType kFloats[] = {DType::float16, DType::bfloat16, DType::float32, DType::float64};

bool is_half(DType dtype) { return dtype == DType::float16 || dtype == DType::bfloat16; }
Compression format_of(DType half) { return half == DType::float16 ? Compression::fp16 : Compression::bf16; }

/// Multiplies with ops::reduce().
Bytes scaled_by_cpu(DType dtype, const Bytes& elements, double factor) {
    const Reduction r{.dtype = dtype, .op = ReduceOp::sum, .prescale = factor};
    return reduced_by_cpu(r, {elements}, elements.size() / size_of(dtype));
}

/// Converts elements between a 16-bit type and a wider type, or between float32 and float64. Widening is exact.
Bytes resized(DType from, DType to, const Bytes& elements) {
    const std::size_t count = elements.size() / size_of(from);
    Bytes result(count * size_of(to));
    if (is_half(from)) {
        expand({to, format_of(from)}, elements.data(), result.data(), 1.0, count);
    } else if (is_half(to)) {
        compress({from, format_of(to)}, elements.data(), result.data(), count);
    } else {
        for (std::size_t i = 0; i < count; ++i) {
            float narrow = 0;
            double wide = 0;
            if (from == DType::float32) {
                std::memcpy(&narrow, elements.data() + i * sizeof(narrow), sizeof(narrow));
                wide = static_cast<double>(narrow);
                std::memcpy(result.data() + i * sizeof(wide), &wide, sizeof(wide));
            } else {
                std::memcpy(&wide, elements.data() + i * sizeof(wide), sizeof(wide));
                narrow = static_cast<float>(wide);
                std::memcpy(result.data() + i * sizeof(narrow), &narrow, sizeof(narrow));
            }
        }
    }
    return result;
}

/// Computes a conversion from its definition: widen, multiply in the wider type, round once.
Bytes converted_by_cpu(const Conversion& way, const Bytes& elements) {
    if (way.from == way.to) {
        return way.factor == 1.0 ? elements : scaled_by_cpu(way.from, elements, way.factor);
    }
    const DType wider = way.from == DType::float64 || way.to == DType::float64 ? DType::float64 : DType::float32;
    Bytes values = way.from == wider ? elements : resized(way.from, wider, elements);
    values = scaled_by_cpu(wider, values, way.factor);
    values = way.to == wider ? values : resized(wider, way.to, values);
    return way.to == DType::float32 ? scaled_by_cpu(way.to, values, 1.0) : values;
}

/// All conversions that have a kernel, without factors.
std::vector<Conversion> conversions() {
    std::vector<Conversion> all;
    for (const DType from : kDTypes) {
        for (const DType to : kDTypes) {
            if (is_convertible({from, to})) {
                all.push_back({from, to});
            }
        }
    }
    return all;
}

std::string convert_and_compare(const Conversion& way, const Bytes& content, std::size_t from_shift,
                                std::size_t to_shift) {
    const Bytes want = converted_by_cpu(way, content);
    Buffer source(content, from_shift, 64);
    Buffer destination(want.size(), to_shift, 64);
    const BatchItem item{source.data(), destination.data(), content.size() / size_of(way.from)};
    run(batch_launch(way, {&item, 1}));
    return source.holds(content) ? difference(way.to, destination, want) : "changed the source";
}

}  // namespace

TEST_CASE("there is a kernel for equal types and for all pairs of floating-point types of 16 bits or more", "[unit]") {
    CHECK(conversions().size() == std::size(kDTypes) + 12);
    CHECK(is_convertible({DType::int8, DType::int8, 0.5}));
    CHECK_FALSE(is_convertible({DType::boolean, DType::boolean, 0.5}));
    CHECK_FALSE(is_convertible({DType::int32, DType::float32}));
    CHECK_FALSE(is_convertible({DType::float32, DType::int64}));
}

TEST_CASE("scale and convert kernels have the bits of their definition for every count and placement", "[unit]") {
    std::mt19937_64 random(1);
    for (Conversion way : conversions()) {
        for (const double factor : {1.0, 0.37, -3e4, 1e-3, 0.0, static_cast<double>(INFINITY)}) {
            way.factor = factor;
            if (!is_convertible(way)) {
                continue;
            }
            for (const std::size_t count : {0U, 1U, 2U, 15U, 16U, 33U, 600U}) {
                const Bytes content = random_elements(way.from, count, random);
                CAPTURE(name_of(way.from), name_of(way.to), factor, count);
                for (const std::size_t from_shift : {0U, 8U, 1U, 40U}) {
                    for (const std::size_t to_shift : {0U, 8U, 3U, 4U}) {
                        if (!is_chosen()) {
                            continue;
                        }
                        CAPTURE(from_shift, to_shift);
                        CHECK(convert_and_compare(way, content, from_shift, to_shift) == "");
                    }
                }
                // Both pointers are two elements before an aligned address. So the kernel first processes two single
                // elements, and then vectors.
                CHECK(convert_and_compare(way, content, 2 * size_of(way.from), 2 * size_of(way.to)) == "");
            }
        }
    }
}

TEST_CASE("convert kernels convert each of the 65536 patterns of the 16-bit types", "[unit]") {
    std::vector<std::uint16_t> patterns(65536);
    std::iota(patterns.begin(), patterns.end(), std::uint16_t{0});
    Bytes content(patterns.size() * 2);
    std::memcpy(content.data(), patterns.data(), content.size());
    for (const DType from : {DType::float16, DType::bfloat16}) {
        for (const DType to : kFloats) {
            for (const double factor : {1.0, 0.3}) {
                CAPTURE(name_of(from), name_of(to), factor);
                CHECK(convert_and_compare({from, to, factor}, content, 0, 0) == "");
            }
        }
    }
}

TEST_CASE("convert kernels round to nearest even around every float16 and bfloat16", "[unit]") {
    // Values around the middle between two neighbours. In float64, some of them are much closer to the middle than a
    // float32 can be.
    for (const DType half : {DType::float16, DType::bfloat16}) {
        std::vector<double> values;
        for (std::uint32_t bits = 0; bits < 0x7F80; bits += 3) {
            const double low = ops::test::decode(half, static_cast<std::uint16_t>(bits));
            const double high = ops::test::decode(half, static_cast<std::uint16_t>(bits + 1));
            if (!std::isfinite(high)) {
                break;
            }
            const double middle = low + (high - low) / 2;
            for (const double value : {middle, std::nextafter(middle, 0.0), std::nextafter(middle, INFINITY)}) {
                values.push_back(value);
                values.push_back(-value);
            }
        }
        Bytes content(values.size() * sizeof(double));
        std::memcpy(content.data(), values.data(), content.size());
        CHECK(convert_and_compare({DType::float64, half}, content, 0, 0) == "");
        CHECK(convert_and_compare({DType::float32, half}, resized(DType::float64, DType::float32, content), 0, 0) ==
              "");
        CHECK(convert_and_compare({DType::float64, DType::float32}, content, 0, 0) == "");
    }
}

TEST_CASE("a batch packs tensors of any size and alignment in one launch, and unpacks them", "[unit]") {
    std::mt19937_64 random(2);
    for (const Conversion& way :
         {Conversion{DType::float32, DType::float32}, Conversion{DType::float32, DType::bfloat16, 0.25},
          Conversion{DType::uint8, DType::uint8}, Conversion{DType::int64, DType::int64, 3.0},
          Conversion{DType::float64, DType::float16}, Conversion{DType::boolean, DType::boolean}}) {
        for (const std::size_t tensors : {std::size_t{1}, std::size_t{7}, std::size_t{kMostItems}}) {
            std::vector<Buffer> sources;
            std::vector<Buffer> results;
            std::vector<BatchItem> pack;
            Bytes want;
            for (std::size_t t = 0; t < tensors; ++t) {
                const std::size_t count = random() % 4 == 0 ? random() % 3 : random() % 700;
                const std::size_t shift = random() % 2 == 0 ? 0 : random() % 64;
                const Bytes content = random_elements(way.from, count, random);
                const Bytes packed = converted_by_cpu(way, content);
                sources.emplace_back(content, shift, 64);
                results.emplace_back(packed.size(), random() % 64, 64);
                pack.push_back({sources.back().data(), nullptr, count});
                want.insert(want.end(), packed.begin(), packed.end());
            }
            Buffer together(want.size(), 0, 64);
            std::byte* at = together.data();
            std::vector<BatchItem> unpack;
            for (std::size_t t = 0; t < tensors; ++t) {
                pack[t].destination = at;
                unpack.push_back({at, results[t].data(), pack[t].count});
                at += pack[t].count * size_of(way.to);
            }
            run(batch_launch(way, pack));
            CAPTURE(name_of(way.from), name_of(way.to), tensors);
            REQUIRE(difference(way.to, together, want) == "");
            run(batch_launch({way.to, way.to}, unpack));
            const std::byte* expected = together.data();
            for (std::size_t t = 0; t < tensors; ++t) {
                const Bytes one(expected, expected + pack[t].count * size_of(way.to));
                CHECK(difference(way.to, results[t], one) == "");
                expected += one.size();
            }
        }
    }
}

TEST_CASE("the copy kernel copies every number of bytes between every pair of alignments", "[unit]") {
    std::mt19937_64 random(3);
    for (std::size_t bytes = 0; bytes < 70; ++bytes) {
        const Bytes content = random_elements(DType::uint8, bytes, random);
        for (std::size_t from = 0; from < 17; ++from) {
            for (std::size_t to = 0; to < 17; ++to) {
                if (!is_chosen()) {
                    continue;
                }
                CAPTURE(bytes, from, to);
                REQUIRE(convert_and_compare({DType::uint8, DType::uint8}, content, from, to) == "");
            }
        }
    }
}

TEST_CASE("the fill kernel writes neutral elements and zeros at every alignment", "[unit]") {
    for (const DType dtype : kDTypes) {
        for (const ReduceOp op : ops_of(dtype)) {
            for (const std::size_t count : {0U, 1U, 2U, 15U, 33U, 200U}) {
                for (std::size_t shift = 0; shift < 17; ++shift) {
                    if (!is_chosen()) {
                        continue;
                    }
                    const Reduction r{.dtype = dtype, .op = op};
                    Bytes want(count * size_of(dtype));
                    fill_neutral(r, want.data(), count);
                    Buffer buffer(want.size(), shift, 64);
                    run(neutral_launch(r, buffer.data(), count));
                    CAPTURE(name_of(dtype), name_of(op), count, shift);
                    REQUIRE(difference(dtype, buffer, want) == "");
                    run(zero_launch(buffer.data(), want.size()));
                    REQUIRE(difference(dtype, buffer, Bytes(want.size())) == "");
                }
            }
        }
    }
}

}  // namespace rueda::ops::cuda::test
