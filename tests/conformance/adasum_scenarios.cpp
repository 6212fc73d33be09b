// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The Rueda authors
#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <random>

#include "tests/conformance/scenarios.hpp"
#include "tests/conformance/values.hpp"
#include "tests/ops/adasum_reference.hpp"
#include "tests/support/ranks.hpp"

namespace rueda::tests {
namespace {

using ops::test::Bytes;

constexpr std::array kFloats = {DType::float16, DType::bfloat16, DType::float32, DType::float64};
/// Numbers of elements. With the smallest numbers, the tensor travels in the announcement. With larger ones, it takes
/// one chunk or several chunks.
constexpr std::array kSizes = {std::size_t{0},    std::size_t{1},    std::size_t{20},    std::size_t{300},
                               std::size_t{2049}, std::size_t{8193}, std::size_t{20'011}};
constexpr Reduce kAdasum{ReduceOp::adasum};

/// Returns the input of any rank, so that every rank can compute the inputs of all.
Bytes input_of(int rank, DType dtype, std::size_t elements, std::uint32_t salt) {
    std::mt19937_64 random(salt * 1000 + static_cast<std::uint32_t>(rank));
    return ops::test::random_gradients(dtype, elements, random);
}

class Given {
public:
    Given(Client& client, DType dtype, const Bytes& content, bool resident)
        : buffer_(client, dtype, {static_cast<std::int64_t>(content.size() / size_of(dtype))}, resident) {
        std::copy(content.begin(), content.end(), static_cast<std::byte*>(buffer_.tensor().data));
    }
    [[nodiscard]] const Tensor& tensor() const { return buffer_.tensor(); }
    [[nodiscard]] Bytes content() const {
        const auto* const begin = static_cast<const std::byte*>(tensor().data);
        return {begin, begin + tensor().bytes()};
    }

private:
    Buffer buffer_;
};

/// Tests cases whose result is the same for every tree of pairs.
void simple_cases(Client& client) {
    for (const DType dtype : kFloats) {
        for (const std::size_t elements : {std::size_t{40}, std::size_t{30'000}}) {
            const Buffer same(client, dtype, {static_cast<std::int64_t>(elements)}, false);
            const Buffer own(client, dtype, {static_cast<std::int64_t>(elements)}, client.rank() % 2 == 0);
            const Buffer one(client, dtype, {static_cast<std::int64_t>(elements)}, true);
            for (std::size_t i = 0; i < elements; ++i) {
                const auto value = static_cast<std::int64_t>(i % 7) - 3;
                const auto owner = static_cast<int>(i % static_cast<std::size_t>(client.size()));
                set_element(same.tensor(), i, value);
                set_element(own.tensor(), i, owner == client.rank() ? value : 0);
                set_element(one.tensor(), i, client.rank() == client.size() - 1 ? value : 0);
            }
            const std::string what = fmt::format("adasum.{}.{}", rueda::name_of(dtype), elements);
            expect_ok(client.allreduce(what + ".same", same.tensor(), same.tensor(), kAdasum), what);
            expect_ok(client.allreduce(what + ".own", own.tensor(), own.tensor(), {ReduceOp::adasum, 0.5, 2.0}), what);
            expect_ok(client.allreduce(what + ".one", one.tensor(), one.tensor(), kAdasum), what);
            for (std::size_t i = 0; i < elements; ++i) {
                const double value = static_cast<double>(i % 7) - 3;
                RUEDA_RANK_EQUAL(element(same.tensor(), i), value);  // the Adasum of parallel vectors is their average
                RUEDA_RANK_EQUAL(element(own.tensor(), i), value);   // the Adasum of orthogonal vectors is their sum
                RUEDA_RANK_EQUAL(element(one.tensor(), i), value);   // zeros do not change the result
            }
        }
    }
}

/// Returns whether all ranks of the set are on one host. All ranks get the same answer. A rank cannot decide this
/// alone: even if its host has as many ranks as the set has members, some members may be on other hosts. Therefore the
/// ranks make an allreduce.
bool are_on_one_host(Client& client) {
    const Buffer alike(client, DType::int32, {1}, false);
    set_element(alike.tensor(), 0, client.local_size() == client.size() ? 1 : 0);
    expect_ok(client.allreduce("adasum.host", alike.tensor(), alike.tensor(), {ReduceOp::min}), "who is where");
    return element(alike.tensor(), 0) == 1;
}

/// Checks the bits of the result on one host, where each rank combines one part of the tensor.
void tree_of_one_host(Client& client) {
    if (!are_on_one_host(client)) {
        return;  // test_adasum_properties.py tests several hosts, because it knows the ranks of each host
    }
    std::uint32_t salt = 0;
    for (const DType dtype : kFloats) {
        for (const std::size_t elements : kSizes) {
            std::vector<Bytes> inputs;
            ++salt;
            for (int rank = 0; rank < client.size(); ++rank) {
                inputs.push_back(input_of(rank, dtype, elements, salt));
            }
            const Reduce reduce{ReduceOp::adasum, 1.5, salt % 2 == 0 ? 1.0 : -0.25};
            const Given tensor(client, dtype, inputs[static_cast<std::size_t>(client.rank())],
                               is_resident(Residency::mixed, client.rank(), 0));
            const std::string what = fmt::format("adasum.tree.{}.{}", rueda::name_of(dtype), elements);
            expect_ok(client.allreduce(what, tensor.tensor(), tensor.tensor(), reduce), what);
            const Bytes wanted = ops::test::expected_adasum(
                {.dtype = dtype, .op = ReduceOp::adasum, .prescale = reduce.prescale, .postscale = reduce.postscale},
                inputs, elements, static_cast<std::uint32_t>(client.size()), 1);
            if (tensor.content() != wanted) {
                throw RankCheckFailed(what + ": other bits than the definition's");
            }
        }
    }
}

void refused(Client& client) {
    std::array<std::int64_t, 4> memory{};
    for (const DType dtype : {DType::int32, DType::uint8, DType::int64, DType::boolean}) {
        const Tensor tensor{memory.data(), dtype, {4}};
        const std::string text = expect_failure(end_of(client.start_allreduce("refused", tensor, tensor, kAdasum)),
                                                ErrorCode::unsupported, "adasum of integers");
        RUEDA_RANK_CHECK(
            text.find(fmt::format("there is no adasum of {}; use float16, bfloat16, float32 or float64, or "
                                  "sum or average",
                                  rueda::name_of(dtype))) != std::string::npos);
    }
    const Tensor tensor{memory.data(), DType::float32, {4, 1}};
    const std::string text = expect_failure(end_of(client.start_reducescatter("refused", tensor, nullptr, kAdasum)),
                                            ErrorCode::unsupported, "a reducescatter by adasum");
    RUEDA_RANK_CHECK(text.find("there is no reducescatter by adasum, which needs whole tensors") != std::string::npos);
    expect_failure(end_of(client.start_reduce("refused", tensor, tensor, 0, kAdasum)), ErrorCode::unsupported,
                   "a reduce by adasum");
}

constexpr std::array kScenarios = {
    Scenario{"adasum: parallel, orthogonal and zero tensors", simple_cases},
    Scenario{"adasum: the bits of the definition, on one host", tree_of_one_host},
    Scenario{"adasum: what it is refused for", refused},
};

}  // namespace

std::span<const Scenario> adasum_scenarios() { return kScenarios; }

}  // namespace rueda::tests
