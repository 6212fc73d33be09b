// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The Rueda authors
#include "ops/reduce.hpp"

#include <fmt/format.h>

#include <catch2/catch.hpp>
#include <cmath>
#include <string>

#include "buffers.hpp"
#include "reference.hpp"
#include "tests/support/sanitized.hpp"

namespace rueda::ops::test {
namespace {

std::string describe(const Reduction& r, std::size_t sources, std::size_t count) {
    return fmt::format("{} {} of {} sources of {} elements, prescale {}, postscale {}, divisor {}, {}",
                       name_of(r.dtype), name_of(r.op), sources, count, r.prescale, r.postscale, r.divisor,
                       simd_target());
}

/// Returns "" if both results are equal, and otherwise a description of the first difference.
std::string difference(const Reduction& r, std::size_t sources, const std::byte* got, const Bytes& want) {
    if (std::equal(want.begin(), want.end(), got)) {
        return "";
    }
    const std::size_t size = size_of(r.dtype);
    const auto at = static_cast<std::size_t>(std::mismatch(want.begin(), want.end(), got).first - want.begin());
    std::uint64_t got_bits = 0;
    std::uint64_t want_bits = 0;
    std::memcpy(&got_bits, got + at / size * size, size);
    std::memcpy(&want_bits, want.data() + at / size * size, size);
    return fmt::format("{}: element {} is {:#x} instead of {:#x}", describe(r, sources, want.size() / size), at / size,
                       got_bits, want_bits);
}

/// The layout of the memory of one call.
struct Placement {
    std::size_t destinations = 1;
    /// Source s begins (s + 1) * misalignment bytes after a multiple of 64, and destination d begins (d + 3) *
    /// misalignment bytes after one. Both offsets are taken modulo 64.
    std::size_t misalignment = 0;
    bool in_place = false;  ///< whether the first destination is the last source
    Store store = Store::cached;
};

std::string run_and_compare(const Reduction& r, const std::vector<Bytes>& contents, std::size_t count,
                            const Bytes& want, const Placement& placement) {
    std::vector<Buffer> sources;
    std::vector<Buffer> destinations;
    std::vector<const std::byte*> from;
    std::vector<std::byte*> to;
    sources.reserve(contents.size());
    destinations.reserve(placement.destinations);
    for (std::size_t s = 0; s < contents.size(); ++s) {
        const std::size_t margin = placement.in_place ? 64 : 0;
        sources.emplace_back(contents[s], placement.misalignment * (s + 1) % 64, margin);
        from.push_back(sources.back().data());
    }
    for (std::size_t d = 0; d < placement.destinations; ++d) {
        destinations.emplace_back(want.size(), placement.misalignment * (d + 3) % 64, 64);
        to.push_back(destinations.back().data());
    }
    if (placement.in_place) {
        to[0] = sources.back().data();
    }
    reduce(r, from, to, count, placement.store);

    for (std::size_t d = 0; d < placement.destinations; ++d) {
        Buffer& written = placement.in_place && d == 0 ? sources.back() : destinations[d];
        if (!written.canaries_alive()) {
            return describe(r, contents.size(), count) + ": wrote outside its range";
        }
        if (std::string text = difference(r, contents.size(), written.data(), want); !text.empty()) {
            return text;
        }
    }
    for (std::size_t s = 0; s + (placement.in_place ? 1 : 0) < contents.size(); ++s) {
        if (!sources[s].holds(contents[s])) {
            return describe(r, contents.size(), count) + ": changed a source";
        }
    }
    return "";
}

std::vector<Bytes> random_sources(DType dtype, std::size_t n, std::size_t count, std::mt19937_64& random) {
    std::vector<Bytes> sources;
    for (std::size_t s = 0; s < n; ++s) {
        sources.push_back(random_elements(dtype, count, random));
    }
    return sources;
}

}  // namespace

TEST_CASE("reduce gives the reference's bits on every target, for every dtype, operation, count and placement") {
    std::mt19937_64 random(4);
    const Placement placements[] = {{1, 0, false, Store::cached},    {2, 0, false, Store::cached},
                                    {1, 1, false, Store::cached},    {3, 4, true, Store::cached},
                                    {1, 0, true, Store::streaming},  {2, 8, false, Store::streaming},
                                    {2, 3, false, Store::streaming}, {4, 2, false, Store::streaming}};
    for (const DType dtype : kDTypes) {
        for (const ReduceOp op : ops_of(dtype)) {
            for (std::size_t n = 1; n <= 8; ++n) {
                for (const std::size_t count : {0u, 1u, 3u, 17u, 64u, 1000u, 4099u}) {
                    if (tests::kSanitized && count > 1000) {
                        break;  // larger counts run the same code as 1000 elements, only more often
                    }
                    const Reduction r{.dtype = dtype, .op = op, .divisor = static_cast<int>(n)};
                    const std::vector<Bytes> sources = random_sources(dtype, n, count, random);
                    const Bytes want = expected(r, sources, count);
                    for_each_target([&](std::int64_t /*target*/) {
                        for (const Placement& placement : placements) {
                            CHECK(run_and_compare(r, sources, count, want, placement) == "");
                        }
                    });
                }
            }
        }
    }
}

TEST_CASE("scale factors are applied before and after, in the element's arithmetic") {
    std::mt19937_64 random(5);
    const double factors[][2] = {{0.375, 1.0},  {1.0, 1.7},   {-2.5, 0.3},      {0.1, 10.0},
                                 {1e30, 1e-30}, {0.0, -1.25}, {INFINITY, -3.0}, {1.0 + 1e-12, 1.0}};
    for (const DType dtype : kDTypes) {
        for (const ReduceOp op : dtype == DType::boolean ? std::vector<ReduceOp>() : ops_of(dtype)) {
            for (const auto& [prescale, postscale] : factors) {
                for (const std::size_t n : {1u, 2u, 5u}) {
                    for (const std::size_t count : {1u, 17u, 1000u}) {
                        // The divisor counts two more ranks, which have joined and contribute nothing.
                        const Reduction r{dtype, op, prescale, postscale, static_cast<int>(n) + 2};
                        const std::vector<Bytes> sources = random_sources(dtype, n, count, random);
                        const Bytes want = expected(r, sources, count);
                        for_each_target([&](std::int64_t /*target*/) {
                            CHECK(run_and_compare(r, sources, count, want, {2, 2, false, Store::cached}) == "");
                            CHECK(run_and_compare(r, sources, count, want, {1, 0, true, Store::streaming}) == "");
                        });
                    }
                }
            }
        }
    }
}

TEST_CASE("the bits do not show where the range was cut") {
    std::mt19937_64 random(6);
    constexpr std::size_t kCount = 3001;
    for (const DType dtype : kDTypes) {
        for (const ReduceOp op : ops_of(dtype)) {
            for (const std::size_t n : {2u, 3u}) {
                const Reduction r{dtype, op, 1.0, op == ReduceOp::average ? 0.7 : 1.0, static_cast<int>(n)};
                const std::vector<Bytes> sources = random_sources(dtype, n, kCount, random);
                std::vector<const std::byte*> from;
                for (const Bytes& source : sources) {
                    from.push_back(source.data());
                }
                for_each_target([&](std::int64_t /*target*/) {
                    Bytes whole(kCount * size_of(dtype));
                    std::byte* const to_whole[] = {whole.data()};
                    reduce(r, from, to_whole, kCount);
                    for (const std::size_t cut : {1u, 15u, 16u, 1000u, 1501u, 2999u}) {
                        Bytes pieces(kCount * size_of(dtype));
                        std::vector<const std::byte*> from_cut;
                        for (const std::byte* source : from) {
                            from_cut.push_back(source + cut * size_of(dtype));
                        }
                        std::byte* const to_first[] = {pieces.data()};
                        std::byte* const to_second[] = {pieces.data() + cut * size_of(dtype)};
                        reduce(r, from, to_first, cut);
                        reduce(r, from_cut, to_second, kCount - cut);
                        CHECK(difference(r, n, pieces.data(), whole) == "");
                    }
                });
            }
        }
    }
}

TEST_CASE("many sources and many destinations") {
    std::mt19937_64 random(7);
    for (const DType dtype : kDTypes) {
        for (const ReduceOp op : {ReduceOp::sum, ReduceOp::average, ReduceOp::max}) {
            const Reduction r{.dtype = dtype, .op = op, .divisor = 300};
            if (!is_defined(r)) {
                continue;
            }
            const std::vector<Bytes> sources = random_sources(dtype, 300, 700, random);
            const Bytes want = expected(r, sources, 700);
            CHECK(run_and_compare(r, sources, 700, want, {9, 5, true, Store::cached}) == "");
        }
    }
}

TEST_CASE("every target of this machine is chosen when asked for") {
    std::vector<std::string> names;
    for_each_target([&](std::int64_t target) {
        CHECK(std::string(simd_target()) == hwy::TargetName(target));
        names.emplace_back(simd_target());
    });
    INFO(fmt::format("{}", fmt::join(names, " ")));
    CHECK(std::string(simd_target()) == names.front());
#if defined(__x86_64__)
    // If the list contained only the scalar code, the tests would compare nothing. So the list must also contain at
    // least one vector instruction set.
    CHECK(names.size() >= 2);
#endif
}

}  // namespace rueda::ops::test
