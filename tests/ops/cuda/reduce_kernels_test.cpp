// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The Rueda authors

// Compares the kernels rueda_reduce_…, which run on the host here, with ops::reduce().
#include <cmath>
#include <limits>

#include "launches.hpp"

namespace rueda::ops::cuda::test {
namespace {

using ops::test::kDTypes;
using ops::test::ops_of;
using ops::test::random_elements;

/// The offsets of the sources and of the destination from an address that is a multiple of 64, in bytes.
struct Placement {
    std::size_t first = 0;   ///< the offset of source 0
    std::size_t step = 0;    ///< the offset grows by this number from one source to the next
    std::size_t result = 0;  ///< the offset of the destination
    bool in_place = false;   ///< the destination is source 0
};

// With these placements, the kernels process, in this order: vectors from the first element on, vectors after a few
// single elements, only single elements, and only single bytes.
constexpr Placement kPlacements[] = {{0, 0, 0, false},   {0, 0, 0, true},   {8, 16, 24, false}, {24, 0, 8, true},
                                     {8, 8, 0, false},   {16, 0, 8, false}, {1, 0, 1, false},   {0, 1, 0, false},
                                     {5, 16, 21, false}, {3, 7, 0, true}};

std::string reduce_and_compare(const Reduction& r, const std::vector<Bytes>& contents, std::size_t count,
                               const Bytes& want, const Placement& placement, std::uint32_t blocks) {
    std::vector<Buffer> sources;
    std::vector<const std::byte*> from;
    for (std::size_t s = 0; s < contents.size(); ++s) {
        sources.emplace_back(contents[s], (placement.first + s * placement.step) % 64, 64);
        from.push_back(sources.back().data());
    }
    Buffer destination(want.size(), placement.result, 64);
    Buffer& result = placement.in_place ? sources[0] : destination;
    run(reduce_launch(r, from, result.data(), count), blocks);
    for (std::size_t s = placement.in_place ? 1 : 0; s < contents.size(); ++s) {
        if (!sources[s].holds(contents[s])) {
            return "changed a source";
        }
    }
    return difference(r.dtype, result, want);
}

std::vector<Bytes> random_sources(DType dtype, std::size_t n, std::size_t count, std::mt19937_64& random) {
    std::vector<Bytes> sources;
    for (std::size_t s = 0; s < n; ++s) {
        sources.push_back(random_elements(dtype, count, random));
    }
    return sources;
}

template <class T>
Bytes bytes_of(const std::vector<T>& values) {
    Bytes bytes(values.size() * sizeof(T));
    std::memcpy(bytes.data(), values.data(), bytes.size());
    return bytes;
}

}  // namespace

TEST_CASE("reduce kernels have the bits of ops::reduce for every dtype, operation, count and placement", "[unit]") {
    std::mt19937_64 random(1);
    for (const DType dtype : kDTypes) {
        for (const ReduceOp op : ops_of(dtype)) {
            for (const std::size_t n : {1U, 2U, 3U, 5U, 16U}) {
                for (const std::size_t count : {0U, 1U, 3U, 17U, 64U, 1003U}) {
                    const Reduction r{.dtype = dtype, .op = op, .divisor = static_cast<int>(n)};
                    const std::vector<Bytes> sources = random_sources(dtype, n, count, random);
                    const Bytes want = reduced_by_cpu(r, sources, count);
                    for (const Placement& placement : kPlacements) {
                        if (!is_chosen()) {
                            continue;
                        }
                        CAPTURE(name_of(dtype), name_of(op), n, count, placement.first, placement.step,
                                placement.result, placement.in_place);
                        CHECK(reduce_and_compare(r, sources, count, want, placement, 0) == "");
                    }
                }
            }
        }
    }
}

TEST_CASE("reduce kernels apply factors and divisors as ops::reduce does", "[unit]") {
    std::mt19937_64 random(2);
    const double factors[][2] = {{0.375, 1.0},  {1.0, 1.7},   {-2.5, 0.3},      {0.1, 10.0},
                                 {1e30, 1e-30}, {0.0, -1.25}, {INFINITY, -3.0}, {1.0 + 1e-12, 1.0},
                                 {NAN, 1.0},    {1.0, 1e300}, {1e-320, 1e308}};
    for (const DType dtype : kDTypes) {
        for (const ReduceOp op : dtype == DType::boolean ? std::vector<ReduceOp>() : ops_of(dtype)) {
            for (const auto& [before, after] : factors) {
                for (const std::size_t n : {1U, 2U, 7U}) {
                    if (!is_chosen()) {
                        continue;
                    }
                    const std::size_t count = 517;
                    // The divisor counts two more ranks, which have joined and contribute nothing.
                    const Reduction r{dtype, op, before, after, static_cast<int>(n) + 2};
                    const std::vector<Bytes> sources = random_sources(dtype, n, count, random);
                    const Bytes want = reduced_by_cpu(r, sources, count);
                    CAPTURE(name_of(dtype), name_of(op), n, before, after);
                    CHECK(reduce_and_compare(r, sources, count, want, {0, 16, 32, false}, 0) == "");
                    CHECK(reduce_and_compare(r, sources, count, want, {1, 0, 0, false}, 0) == "");
                }
            }
        }
    }
}

TEST_CASE("the bits of reduce kernels do not depend on the grid", "[unit]") {
    std::mt19937_64 random(3);
    for (const DType dtype : kDTypes) {
        const Reduction r{
            .dtype = dtype, .op = dtype == DType::boolean ? ReduceOp::max : ReduceOp::average, .divisor = 3};
        const std::size_t count = 40'001;
        const std::vector<Bytes> sources = random_sources(dtype, 3, count, random);
        const Bytes want = reduced_by_cpu(r, sources, count);
        for (const std::uint32_t blocks : {1U, 2U, 7U, 300U}) {
            if (!is_chosen()) {
                continue;
            }
            CAPTURE(name_of(dtype), blocks);
            CHECK(reduce_and_compare(r, sources, count, want, {8, 16, 24, false}, blocks) == "");
            CHECK(reduce_and_compare(r, sources, count, want, {8, 8, 0, false}, blocks) == "");
        }
    }
}

TEST_CASE("averages of 64-bit integers divide exact sums of more than 64 bits", "[unit]") {
    constexpr std::int64_t kMax = std::numeric_limits<std::int64_t>::max();
    constexpr std::int64_t kMin = std::numeric_limits<std::int64_t>::min();
    constexpr std::uint64_t kTop = std::numeric_limits<std::uint64_t>::max();
    const auto average = [](DType dtype, const std::vector<Bytes>& sources, double postscale) {
        const Reduction r{.dtype = dtype,
                          .op = ReduceOp::average,
                          .postscale = postscale,
                          .divisor = static_cast<int>(sources.size())};
        const std::size_t count = sources[0].size() / size_of(dtype);
        const Bytes want = reduced_by_cpu(r, sources, count);
        CHECK(reduce_and_compare(r, sources, count, want, {}, 0) == "");
        return want;
    };
    const std::vector<std::int64_t> a{kMax, kMin, kMax, kMin, -1, 0, kMin, 12};
    const std::vector<std::int64_t> b{kMax, kMin, kMin, kMin + 1, 0, 0, kMin, 13};
    const std::vector<std::int64_t> c{kMax - 1, kMin + 1, 0, kMin, 0, -1, 5, -14};
    const Bytes means = average(DType::int64, {bytes_of(a), bytes_of(b), bytes_of(c)}, 1.0);
    CHECK(means == bytes_of<std::int64_t>({kMax - 1 + 0, kMin + 1, 0, kMin + 1, 0, 0, kMin / 3 * 2 - 1 + 2, 3}));
    const std::vector<std::uint64_t> d{kTop, kTop, 1, std::uint64_t{1} << 63};
    const std::vector<std::uint64_t> e{kTop, kTop - 1, 0, std::uint64_t{1} << 63};
    CHECK(average(DType::uint64, {bytes_of(d), bytes_of(e)}, 1.0) ==
          bytes_of<std::uint64_t>({kTop, kTop - 1, 0, std::uint64_t{1} << 63}));
    for (const double postscale : {0.5, 1e-3, 0.99999, -1.0}) {
        average(DType::int64, {bytes_of(a), bytes_of(b), bytes_of(c)}, postscale);
        average(DType::uint64, {bytes_of(d), bytes_of(e)}, postscale);
    }
    // The sums lie close to the middle between two doubles. So they show whether the conversion rounds only once.
    std::mt19937_64 random(4);
    std::vector<Bytes> sources;
    for (int s = 0; s < 16; ++s) {
        std::vector<std::uint64_t> values;
        for (int i = 0; i < 4096; ++i) {
            const std::uint64_t step = random() % 5;
            values.push_back((std::uint64_t{1} << 63) + ((random() % 8) << 10) + step - 2);
        }
        sources.push_back(bytes_of(values));
    }
    average(DType::uint64, sources, 0.75);
    average(DType::int64, sources, 0.75);
}

TEST_CASE("reduce kernels treat zeros, NaNs, infinities and subnormals as ops::reduce does", "[unit]") {
    const std::vector<float> values{0.0F,    -0.0F,   1.0F,     -1.0F,    INFINITY,        -INFINITY, NAN,
                                    -NAN,    1e-45F,  -1e-45F,  1e-40F,   1.17549435e-38F, 3.4e38F,   -3.4e38F,
                                    65504.F, 65520.F, 5.96e-8F, 2.98e-8F, 2.9802e-8F,      6.1e-5F};
    std::vector<float> left;
    std::vector<float> right;
    for (const float a : values) {
        for (const float b : values) {
            left.push_back(a);
            right.push_back(b);
        }
    }
    const std::vector<Bytes> floats{bytes_of(left), bytes_of(right)};
    const std::vector<Bytes> doubles{bytes_of(std::vector<double>(left.begin(), left.end())),
                                     bytes_of(std::vector<double>(right.begin(), right.end()))};
    for (const DType dtype : {DType::float16, DType::bfloat16, DType::float32, DType::float64}) {
        std::vector<Bytes> sources = dtype == DType::float64 ? doubles : floats;
        if (size_of(dtype) == 2) {
            for (Bytes& source : sources) {
                std::vector<std::uint16_t> halves;
                for (std::size_t i = 0; i < left.size(); ++i) {
                    float value = 0;
                    std::memcpy(&value, source.data() + i * sizeof(value), sizeof(value));
                    halves.push_back(ops::test::encode(dtype, static_cast<double>(value)));
                }
                source = bytes_of(halves);
            }
        }
        for (const ReduceOp op : ops_of(dtype)) {
            const Reduction r{.dtype = dtype, .op = op, .divisor = 2};
            const Bytes want = ops::test::expected(r, sources, left.size());
            CAPTURE(name_of(dtype), name_of(op));
            CHECK(reduce_and_compare(r, sources, left.size(), want, {}, 0) == "");
        }
    }
}

}  // namespace rueda::ops::cuda::test
