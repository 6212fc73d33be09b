// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The Rueda authors
#include "ops/exact_sums.hpp"

#include <catch2/catch.hpp>
#include <cstdint>
#include <cstring>
#include <random>
#include <vector>

#include "buffers.hpp"

namespace rueda::ops::test {
namespace {

/// Adds the words of all sources with reduce(), as Rueda does between ranks. Returns the sum.
Bytes sum_of_words(const Reduction& reduction, const std::vector<Bytes>& sources, std::size_t count) {
    const std::size_t words = count * words_of(reduction.dtype);
    std::vector<Bytes> in_words;
    std::vector<const std::byte*> pointers;
    for (const Bytes& source : sources) {
        in_words.emplace_back(words * sizeof(std::int64_t));
        to_words(reduction, source.data(), in_words.back().data(), count);
    }
    for (const Bytes& source : in_words) {
        pointers.push_back(source.data());
    }
    Bytes sum(words * sizeof(std::int64_t));
    std::byte* const to = sum.data();
    reduce({.dtype = DType::int64, .op = ReduceOp::sum}, pointers, {&to, 1}, words);
    return sum;
}

Bytes average(const Reduction& reduction, const std::vector<Bytes>& sources, std::size_t count) {
    Bytes result(count * size_of(reduction.dtype));
    average_words(reduction, sum_of_words(reduction, sources, count).data(), result.data(), count);
    return result;
}

TEST_CASE("an average of integers in words is the one of the exact sum") {
    std::mt19937_64 random(3);
    for (const DType dtype : kIntegers) {
        for (const std::size_t members : {1U, 2U, 3U, 7U, 300U}) {
            for (const double factor : {1.0, 0.3, -1.7, 1e30}) {
                const Reduction reduction{.dtype = dtype,
                                          .op = ReduceOp::average,
                                          .prescale = factor,
                                          .postscale = factor,
                                          .divisor = static_cast<int>(members)};
                std::vector<Bytes> sources;
                for (std::size_t member = 0; member < members; ++member) {
                    sources.push_back(random_elements(dtype, 100, random));
                }
                INFO(name_of(dtype) << " of " << members << ", factors " << factor);
                CHECK(average(reduction, sources, 100) == expected(reduction, sources, 100));
            }
        }
    }
}

TEST_CASE("limits of int64 and uint64 in words") {
    const std::vector<std::int64_t> limits{
        INT64_MIN, INT64_MAX, -1, 0, 1, -(std::int64_t{1} << 32), (std::int64_t{1} << 32) - 1};
    Bytes source(limits.size() * sizeof(std::int64_t));
    std::memcpy(source.data(), limits.data(), source.size());
    const std::vector<Bytes> sources(5, source);
    for (const DType dtype : {DType::int64, DType::uint64}) {  // both types must give the same bytes
        const Reduction reduction{.dtype = dtype, .op = ReduceOp::average, .divisor = 5};
        CHECK(average(reduction, sources, limits.size()) == source);  // the average of five equal sources is the source
    }
}

TEST_CASE("only averages of integers need words") {
    for (const DType dtype : kDTypes) {
        for (const ReduceOp op : kOps) {
            CHECK(needs_words({.dtype = dtype, .op = op}) == (is_integer(dtype) && op == ReduceOp::average));
        }
    }
}

}  // namespace
}  // namespace rueda::ops::test
