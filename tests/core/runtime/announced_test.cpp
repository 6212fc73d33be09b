// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The Rueda authors
#include "core/process_set/batches/announced.hpp"

#include <catch2/catch.hpp>
#include <cstring>
#include <string>

#include "tests/core/runtime/two_members.hpp"

namespace rueda::tests {
namespace {

using core::Announced;
using core::SetView;
using Flags = core::Place<base::StdAtomics>::Flags;

/// Returns where member 0 finds the tensor that member 1 announced.
Result<collectives::Location> read_by_0(const TwoMembers& set, const core::TensorEntry& own) {
    collectives::Location found;
    if (const Status read = Announced(set.view(0)).locate(own, own.slot, 1, found); !read.is_ok()) {
        return read;
    }
    return found;
}

std::string refused_by_0(const TwoMembers& set, const core::TensorEntry& own) {
    const auto found = read_by_0(set, own);
    CHECK(found.status().code() == ErrorCode::internal);
    return found.status().message();
}

TEST_CASE("an input that travels is read as it was given", "[threads]") {
    const TwoMembers set;
    Pending own;
    Pending other(7);
    set.announce(1, other.allreduce().entry);
    const auto found = read_by_0(set, own.allreduce().entry);
    REQUIRE(found.is_ok());
    REQUIRE(found.value().payload != nullptr);
    CHECK(found.value().payload != reinterpret_cast<const std::byte*>(other.values.data()));
    CHECK(std::memcmp(found.value().payload, other.values.data(), 16) == 0);
    CHECK(found.value().input == nullptr);
    CHECK_FALSE(found.value().absent);

    set.place(1, own.entry).payload_bytes = 12;
    CHECK(refused_by_0(set, own.entry) == "tensor 'pending': rank 5 announced a payload of 12 bytes for 16");
}

TEST_CASE("an input in resident memory is found through the reader's mapping", "[threads]") {
    const TwoMembers set;
    constexpr std::int64_t kRows = 1024;  // 16 KiB are too large to be copied into the announcement
    Pending own(1, kRows);
    Pending other(1, kRows);
    own.allgather();
    other.allgather();
    std::byte* const written = set.arena(1).resident(1) + 4096;
    other.entry.request.input = written;
    set.announce(1, other.entry);
    const auto found = read_by_0(set, own.entry);
    REQUIRE(found.is_ok());
    CHECK(found.value().payload == nullptr);
    CHECK(found.value().first_dimension == kRows);
    REQUIRE(found.value().input == set.arena(0).resident(1) + 4096);
    *written = std::byte{42};
    CHECK(*found.value().input == std::byte{42});

    set.place(1, own.entry).input = (1U << 16U) - 16384 + 1;  // the input ends one byte after the end of the memory
    CHECK(refused_by_0(set, own.entry) == "tensor 'pending': rank 5 announced memory outside its resident region");
}

TEST_CASE("an impossible first dimension is refused, and this rank's own one is the one of its caller", "[threads]") {
    const TwoMembers set;
    Pending own(1, 3);
    Pending other(1, 2);
    set.announce(0, own.allgather().entry);
    set.announce(1, other.allgather().entry);
    set.place(0, own.entry).first_dimension = 1000;
    collectives::Location mine;
    REQUIRE(Announced(set.view(0)).locate(own.entry, own.entry.slot, 0, mine).is_ok());
    CHECK(mine.first_dimension == 3);

    set.place(1, own.entry).first_dimension = -1;
    CHECK(refused_by_0(set, own.entry) == "tensor 'pending': rank 5 announced a first dimension of -1");
    constexpr std::int64_t kHuge = std::int64_t{1} << 60;  // a row has 16 bytes, so the size in bytes overflows
    set.place(1, own.entry).first_dimension = kHuge;
    CHECK(refused_by_0(set, own.entry) ==
          fmt::format("tensor 'pending': rank 5 announced a first dimension of {}", kHuge));
}

TEST_CASE("a rank that stands in contributes nothing, and says whether averages count it", "[threads]") {
    for (const bool is_counted : {true, false}) {
        INFO("counted: " << is_counted);
        const TwoMembers set;
        Pending own;
        Pending other;
        other.allreduce().entry.stands_in = true;
        other.entry.is_counted = is_counted;
        set.announce(1, other.entry);
        const auto found = read_by_0(set, own.allreduce().entry);
        REQUIRE(found.is_ok());
        CHECK(found.value().absent);
        CHECK(found.value().counted == is_counted);
        CHECK(found.value().payload == nullptr);
        CHECK(Announced(set.view(0)).stood_in(own.entry.slot, 1, 1));
        collectives::Location mine;  // the location of the joined member's tensor, as that member itself sees it
        REQUIRE(Announced(set.view(1)).locate(other.entry, own.entry.slot, 1, mine).is_ok());
        CHECK(mine.absent);
        CHECK(mine.counted == is_counted);
    }
}

TEST_CASE("splits are those of the rows that were announced", "[threads]") {
    const TwoMembers set;
    Pending own(1, 5);
    Pending other(1, 4);
    own.alltoall(std::array<std::int64_t, 2>{2, 3});
    other.alltoall(std::array<std::int64_t, 2>{1, 3});
    set.announce(0, own.entry);
    set.announce(1, other.entry);
    const Announced announced(set.view(0));
    std::array<collectives::Location, 2> of;
    REQUIRE(announced.locate(own.entry, own.entry.slot, 0, of[0]).is_ok());
    REQUIRE(announced.locate(own.entry, own.entry.slot, 1, of[1]).is_ok());
    std::vector<std::int64_t> splits;
    const Result<std::int64_t> rows = announced.read_splits(own.entry, own.entry.slot, of, splits);
    REQUIRE(rows.is_ok());
    CHECK(rows.value() == 2 + 1);
    CHECK(splits == std::vector<std::int64_t>{2, 3, 1, 3});
    CHECK(own.completion.received_splits == std::vector<std::int64_t>{2, 1});

    std::int64_t* const written = set.memory().splits(own.entry.slot, 1, 1);
    for (const std::array<std::int64_t, 2>& lie : {std::array<std::int64_t, 2>{1, 2}, {2, 3}, {5, -1}, {-1, 5}}) {
        INFO(lie[0] << " and " << lie[1]);
        std::copy(lie.begin(), lie.end(), written);
        CHECK(announced.read_splits(own.entry, own.entry.slot, of, splits).status().message() ==
              "tensor 'pending': rank 5 announced splits that are not those of its 4 rows");
    }
}

TEST_CASE("equal splits are computed from the rows, and need no table", "[threads]") {
    const TwoMembers set;
    Pending own(1, 3);
    Pending other(1, 6);
    own.alltoall(std::array<std::int64_t, 2>{1, 2});
    other.alltoall(std::array<std::int64_t, 2>{3, 3});
    std::fill_n(set.memory().splits(own.entry.slot, 1, 1), 2, -1);
    set.announce(0, own.entry);
    set.announce(1, other.entry);
    const Announced announced(set.view(0));
    const auto read = [&](std::vector<std::int64_t>& splits) {
        std::array<collectives::Location, 2> of;
        REQUIRE(announced.locate(own.entry, own.entry.slot, 0, of[0]).is_ok());
        REQUIRE(announced.locate(own.entry, own.entry.slot, 1, of[1]).is_ok());
        return announced.read_splits(own.entry, own.entry.slot, of, splits);
    };
    std::vector<std::int64_t> splits;
    CHECK(read(splits).value() == 1 + 3);
    CHECK(splits == std::vector<std::int64_t>{1, 2, 3, 3});
    CHECK(own.completion.received_splits == std::vector<std::int64_t>{1, 3});

    set.place(1, own.entry).first_dimension = 7;
    set.place(1, own.entry).flags &= ~core::Place<base::StdAtomics>::kPayload;
    CHECK(read(splits).status().message() ==
          "tensor 'pending': rank 5 announced splits that are not those of its 7 rows");
}

TEST_CASE("rows that all agreed on are compared, and a scatter's come from its root", "[threads]") {
    const TwoMembers set;
    const Announced announced(set.view(0));
    Pending own(1, 6);
    own.reducescatter(0, 2);
    CHECK(announced.check_rows(own.entry, std::array<std::int64_t, 2>{6, 6}).is_ok());
    CHECK(announced.check_rows(own.entry, std::array<std::int64_t, 2>{6, 7}).message() ==
          "tensor 'pending': rank 5 announced 7 rows for a reducescatter of 6");

    Pending other;
    other.allreduce();
    other.entry.request.metadata.operation = static_cast<std::uint8_t>(collectives::Operation::scatter);
    other.entry.request.metadata.root = 0;
    other.completion.received_splits = {4, 0};
    CHECK(announced.check_source(other.entry).is_ok());
    CHECK(other.completion.received_splits.empty());
    other.completion.received_splits = {4, 1};
    CHECK(announced.check_source(other.entry).message() ==
          "tensor 'pending': rank 5 has rows for others, and is not the root");
}

TEST_CASE("the list of call sites leaves out ranks that stand in", "[threads]") {
    const TwoMembers set;
    Pending own;
    Pending other;
    other.entry.request.source_line = 23;
    own.allreduce().entry.request.source_file = "train.py";
    own.entry.request.source_line = 17;
    other.allreduce().entry.request.source_file = "train.py";
    other.entry.request.source_line = 23;
    set.announce(0, own.entry);
    set.announce(1, other.entry);
    const Announced announced(set.view(0));
    CHECK(announced.called_from(own.entry.slot, 1) == "; called from: rank 3: train.py:17; rank 5: train.py:23");
    set.place(1, own.entry).flags |= Flags::kJoined;
    CHECK(announced.called_from(own.entry.slot, 1) == "; called from: rank 3: train.py:17");
}

}  // namespace
}  // namespace rueda::tests
