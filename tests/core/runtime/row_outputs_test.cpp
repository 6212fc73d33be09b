// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The Rueda authors
#include "core/process_set/batches/row_outputs.hpp"

#include <array>
#include <catch2/catch.hpp>
#include <cstdint>
#include <limits>

#include "tests/core/runtime/two_members.hpp"

namespace rueda::tests {
namespace {

using core::RowOutputs;
using Rows = std::array<std::int64_t, 2>;

const core::SetIdentity kPair{7, {3, 5}};

TEST_CASE("a result that Rueda makes belongs to the completion, and has the rows of all", "[threads]") {
    Pending own(1, 3);
    own.allgather();
    const Result<std::byte*> output = RowOutputs(kPair, 0).of_gathered(own.entry, Rows{3, 2});
    REQUIRE(output.is_ok());
    const auto& made = own.completion.output();
    CHECK(output.value() == made.memory.get());
    CHECK(reinterpret_cast<std::uintptr_t>(output.value()) % base::kCacheLine == 0);
    CHECK(made.shape == std::vector<std::int64_t>{5, 4});
    CHECK(made.dtype == DType::float32);
    // Writes to the whole output, so that sanitizers check its memory.
    std::fill_n(output.value(), 5 * 4 * sizeof(float), std::byte{1});
}

TEST_CASE("a result of no rows is one all the same", "[threads]") {
    Pending own(1, 0);
    own.allgather();
    const Result<std::byte*> output = RowOutputs(kPair, 1).of_gathered(own.entry, Rows{0, 0});
    REQUIRE(output.is_ok());
    CHECK(output.value() != nullptr);
    CHECK(own.completion.output().shape == std::vector<std::int64_t>{0, 4});
}

TEST_CASE("the caller's output is used where it fits, and nothing is kept where it does not", "[threads]") {
    std::array<float, 20> memory{};
    for (const std::int64_t given : {5, 4}) {
        INFO(given << " rows");
        Pending own(1, 3);
        const std::array<std::int64_t, 2> shape{given, 4};
        const rueda_tensor out{memory.data(), shape.data(), 2, RUEDA_FLOAT32};
        REQUIRE(core::make_allgather(own.tensor(), &out, own.options, own.entry.request).is_ok());
        const Result<std::byte*> output = RowOutputs(kPair, 0).of_gathered(own.entry, Rows{3, 2});
        // A wrong shape of the output is no error at this time, because this rank's part must still reach the other
        // ranks.
        REQUIRE(output.is_ok());
        own.completion.complete_one({});
        if (given == 5) {
            CHECK(output.value() == reinterpret_cast<std::byte*>(memory.data()));
            CHECK(own.completion.status().is_ok());
        } else {
            CHECK(output.value() == nullptr);
            CHECK(own.completion.status().code() == ErrorCode::invalid_argument);
        }
        CHECK(own.completion.output().memory == nullptr);
    }
}

TEST_CASE("a share has the rows of its member: the first ones get one more", "[threads]") {
    for (const int rank : {0, 1}) {
        INFO("member " << rank);
        Pending own(1, 5);
        own.reducescatter(rank, 2);
        REQUIRE(RowOutputs(kPair, static_cast<std::uint32_t>(rank)).of_share(own.entry).is_ok());
        CHECK(own.completion.output().shape == std::vector<std::int64_t>{rank == 0 ? 3 : 2, 4});
    }
}

TEST_CASE("the root of a gather learns each rank's number of rows, and the other ranks have no output", "[threads]") {
    Pending root(1, 3);
    Pending other(1, 2);
    root.gather(1);
    other.gather(0);
    REQUIRE(RowOutputs(kPair, 1).on_root(root.entry, Rows{2, 3}).is_ok());
    CHECK(root.completion.received_splits == std::vector<std::int64_t>{2, 3});
    CHECK(root.completion.output().shape == std::vector<std::int64_t>{5, 4});
    const Result<std::byte*> nothing = RowOutputs(kPair, 0).on_root(other.entry, Rows{2, 3});
    REQUIRE(nothing.is_ok());
    CHECK(nothing.value() == nullptr);
    CHECK(other.completion.received_splits.empty());
}

TEST_CASE("numbers of rows that cannot be are refused", "[threads]") {
    constexpr std::int64_t kMost = std::numeric_limits<std::int64_t>::max();
    Pending own(1, 3);
    own.allgather();
    const RowOutputs outputs(kPair, 0);
    const Status negative = outputs.of_gathered(own.entry, Rows{3, -2}).status();
    CHECK(negative.code() == ErrorCode::internal);
    CHECK(negative.message() == "tensor 'pending': rank 5 announced a first dimension of -2");
    CHECK(outputs.of_gathered(own.entry, Rows{3, kMost}).status().message() ==
          "tensor 'pending': the gathered first dimensions overflow");
    CHECK(outputs.of_gathered(own.entry, Rows{0, kMost}).status().message() ==
          fmt::format("tensor 'pending': the {} rows of the result overflow", kMost));
    CHECK(own.completion.output().memory == nullptr);
}

}  // namespace
}  // namespace rueda::tests
