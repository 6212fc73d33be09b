// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The Rueda authors
// Tests how a sparse allreduce reacts to gathered data that no correct rank would send.
#include <catch2/catch.hpp>
#include <cstdlib>
#include <cstring>
#include <memory>
#include <string>
#include <vector>

#include "core/operations/sparse.hpp"

namespace rueda::core {
namespace {

using Numbers = std::vector<std::int64_t>;

/// The gathered data of two ranks. Each rank has one row of a tensor of shape (4,).
struct Gathered {
    Gathered() {
        const rueda_tensor indices{&index, &one, 1, RUEDA_INT64};
        const rueda_tensor values{&value, &one, 1, RUEDA_INT64};
        rueda_options options = RUEDA_OPTIONS_INIT;
        options.reduce_op = RUEDA_SUM;
        auto made = SparseAllreduce::make(indices, values, Numbers{4}, options);
        REQUIRE(made.is_ok());
        sparse = std::move(made).value();
        sparse->belongs_to("w", {3, 5});
        completion.make_room(SparseAllreduce::kMembers);
        put(0, {2}, {1, 3});
        put(1, {2}, {10, 20});
        put(2, {2, 4}, {1, unit, unit, 4, 1, unit, unit, 4});
    }
    /// Fills an output as an allgather would.
    void put(std::uint32_t member, Numbers shape, const Numbers& numbers) {
        Completion::Output& output = completion.output(member);
        output.memory.reset(static_cast<std::byte*>(std::malloc(numbers.size() * sizeof(std::int64_t))));
        std::memcpy(output.memory.get(), numbers.data(), numbers.size() * sizeof(std::int64_t));
        output.shape = std::move(shape);
        output.dtype = DType::int64;
    }
    std::string refused() { return sparse->result(completion, 1).status().message(); }

    std::int64_t index = 1;
    std::int64_t value = 10;
    std::int64_t one = 1;
    std::int64_t unit = 0x3ff0'0000'0000'0000;  // the bits of 1.0
    std::unique_ptr<SparseAllreduce> sparse;
    Completion completion;
};

TEST_CASE("a sparse allreduce adds up the gathered values at equal places", "[threads]") {
    Gathered gathered;
    const auto sums = gathered.sparse->result(gathered.completion, 1);
    REQUIRE(sums.is_ok());
    CHECK(sums.value()->shape == Numbers{2});
    CHECK(std::memcmp(sums.value()->memory.get(), Numbers{10, 20}.data(), 16) == 0);
}

TEST_CASE("gathered places outside of the tensor, or without values, are refused", "[threads]") {
    const std::string expected = "; expected as many, and places from 0 to 3";
    for (const std::int64_t place : {std::int64_t{4}, std::int64_t{-1}, std::int64_t{1} << 62}) {
        Gathered gathered;
        gathered.put(0, {2}, {1, place});
        CHECK(gathered.refused() == "sparse allreduce 'w': the ranks announced 2 places and 2 values, and the place " +
                                        std::to_string(place) + expected);
    }
    Gathered gathered;
    gathered.put(0, {3}, {1, 2, 3});
    CHECK(gathered.refused() ==
          "sparse allreduce 'w': the ranks announced 3 places and 2 values, and the place 0" + expected);
}

TEST_CASE("an unknown reduction of another rank is an error", "[threads]") {
    Gathered gathered;
    const std::int64_t unit = gathered.unit;
    gathered.put(2, {2, 4}, {1, unit, unit, 4, (std::int64_t{1} << 32) + 1, unit, unit, 4});
    CHECK(gathered.refused() ==
          "sparse allreduce 'w': the ranks disagree: rank 3: sum of shape (4,); rank 5: unknown reduce operation of "
          "shape (4,)");
}

}  // namespace
}  // namespace rueda::core
