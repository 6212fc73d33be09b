// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The Rueda authors

// Compares the kernels of adasum, which run on the host here, with ops::adasum().
#include <cmath>

#include "adasum_reference.hpp"
#include "launches.hpp"
#include "ops/adasum.hpp"

namespace rueda::ops::cuda::test {
namespace {

using ops::test::random_gradients;

constexpr DType kFloats[] = {DType::float16, DType::bfloat16, DType::float32, DType::float64};

/// Runs the four kernels with a workspace that is full of NaNs at the beginning.
std::string adasum_and_compare(const Adasum& adasum, const std::vector<Bytes>& contents, std::size_t count,
                               const Bytes& want, std::size_t shift, std::uint32_t blocks) {
    std::vector<Buffer> sources;
    std::vector<const std::byte*> from;
    for (std::size_t s = 0; s < contents.size(); ++s) {
        sources.emplace_back(contents[s], shift * (s + 1) % 64, 64);
        from.push_back(contents[s].empty() && count != 0 ? nullptr : sources.back().data());
    }
    Buffer destination(want.size(), shift * 3 % 64, 64);
    const std::size_t doubles = adasum_workspace(adasum, contents.size(), count);
    Bytes nans(doubles * sizeof(double), std::byte{0xFF});
    Buffer workspace(nans, 0, 64);
    for (const Launch<AdasumArguments>& launch :
         adasum_launches(adasum, from, destination.data(), count, reinterpret_cast<double*>(workspace.data()))) {
        run(launch, blocks);
    }
    return workspace.canaries_alive() ? difference(adasum.dtype, destination, want) : "wrote outside the workspace";
}

std::vector<Bytes> random_tensors(DType dtype, std::size_t n, std::size_t count, std::mt19937_64& random) {
    std::vector<Bytes> tensors;
    for (std::size_t s = 0; s < n; ++s) {
        tensors.push_back(random_gradients(dtype, count, random));
    }
    return tensors;
}

template <class T>
Bytes repeated(const std::vector<T>& pattern, std::size_t count) {
    Bytes bytes(count * sizeof(T));
    for (std::size_t i = 0; i < count; ++i) {
        std::memcpy(bytes.data() + i * sizeof(T), &pattern[i % pattern.size()], sizeof(T));
    }
    return bytes;
}

}  // namespace

TEST_CASE("adasum kernels have the bits of ops::adasum", "[unit]") {
    std::mt19937_64 random(1);
    for (const DType dtype : kFloats) {
        for (const std::size_t n : {1U, 2U, 3U, 4U, 5U, 7U, 16U}) {
            for (const std::size_t count : {0U, 1U, 7U, 100U, 1003U, 20011U, 50000U}) {
                if (!is_chosen() || (n > 5 && count > 2000)) {
                    continue;
                }
                const std::vector<Bytes> tensors = random_tensors(dtype, n, count, random);
                const Reduction r{.dtype = dtype, .op = ReduceOp::adasum, .prescale = 0.75, .postscale = 1.5};
                const Bytes want = reduced_by_cpu(r, tensors, count);
                const Adasum adasum{dtype, 0.75 * 1.5, static_cast<std::uint32_t>(n)};
                CAPTURE(name_of(dtype), n, count);
                CHECK(adasum_and_compare(adasum, tensors, count, want, 0, 0) == "");
                CHECK(adasum_and_compare(adasum, tensors, count, want, 1, 0) == "");
                CHECK(adasum_and_compare(adasum, tensors, count, want, 8, 3) == "");
            }
        }
    }
}

TEST_CASE("the parts of an adasum are part of its definition", "[unit]") {
    std::mt19937_64 random(2);
    for (const DType dtype : kFloats) {
        for (const std::uint32_t parts : {1U, 3U, 8U}) {
            const std::size_t count = 30'001;
            const std::vector<Bytes> tensors = random_tensors(dtype, 2, count, random);
            const Reduction r{.dtype = dtype, .op = ReduceOp::adasum};
            const Bytes want = ops::test::expected_adasum(r, tensors, count, parts, 1);
            CAPTURE(name_of(dtype), parts);
            CHECK(adasum_and_compare({dtype, 1.0, parts}, tensors, count, want, 0, 0) == "");
        }
    }
}

TEST_CASE("adasum kernels treat missing, zero, cancelling, infinite and NaN tensors as ops::adasum does", "[unit]") {
    std::mt19937_64 random(3);
    const std::size_t count = 5000;
    for (const DType dtype : {DType::float32, DType::float64}) {
        const auto tensor = [&](const std::vector<double>& pattern) {
            return dtype == DType::float64 ? repeated(pattern, count)
                                           : repeated(std::vector<float>(pattern.begin(), pattern.end()), count);
        };
        const Bytes ones = tensor({1.0, -2.0, 0.5});
        const Bytes minus = tensor({-1.0, 2.0, -0.5});
        const Bytes zeros = tensor({0.0, -0.0});
        const Bytes infinite = tensor({1.0, INFINITY, 2.0});
        const Bytes nans = tensor({1.0, 2.0, NAN});
        const Bytes tiny = tensor({1e-300, 1e-42, 1e-38});
        const Bytes huge = tensor({1e38, -1e38, 1e300});
        // The first two sources are 1 and 8 times `ones`. They get weights of different signs, and their combination is
        // 4.5 times `ones`. The sum of this combination and the third source is nearly zero. Whether the sum counts as
        // zero depends on the absolute values of the weights.
        const Bytes eightfold = tensor({8.0, -16.0, 4.0});
        const Bytes nearly = tensor({-4.5 * (1 + 1.9e-6), 9.0 * (1 + 1.9e-6), -2.25 * (1 + 1.9e-6)});
        const Bytes gradient = random_gradients(dtype, count, random);
        const Bytes missing;
        const std::vector<std::vector<Bytes>> cases{{ones, ones},
                                                    {ones, minus},
                                                    {ones, zeros},
                                                    {zeros, zeros},
                                                    {infinite, ones},
                                                    {infinite, zeros},
                                                    {nans, ones},
                                                    {nans, zeros},
                                                    {tiny, ones},
                                                    {tiny, tiny},
                                                    {huge, huge},
                                                    {huge, gradient},
                                                    {missing, gradient},
                                                    {gradient, missing},
                                                    {missing, missing},
                                                    {missing},
                                                    {ones, minus, ones},
                                                    {missing, ones, nans},
                                                    {ones, missing, minus, gradient},
                                                    {ones, eightfold, nearly, zeros, gradient, zeros, zeros, zeros},
                                                    {missing, missing, ones, gradient, missing, ones}};
        for (std::size_t which = 0; which < cases.size(); ++which) {
            std::vector<const std::byte*> from;
            for (const Bytes& source : cases[which]) {
                from.push_back(source.empty() ? nullptr : source.data());
            }
            Bytes want(count * size_of(dtype));
            std::byte* const to = want.data();
            ops::adasum({.dtype = dtype, .op = ReduceOp::adasum}, from, {&to, 1}, count);
            CAPTURE(name_of(dtype), which);
            const auto parts = static_cast<std::uint32_t>(from.size());
            CHECK(adasum_and_compare({dtype, 1.0, parts}, cases[which], count, want, 0, 0) == "");
        }
    }
}

}  // namespace rueda::ops::cuda::test
