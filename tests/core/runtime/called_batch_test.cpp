// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The Rueda authors
#include "core/process_set/batches/called_batch.hpp"

#include <array>
#include <catch2/catch.hpp>
#include <cstring>
#include <string>

#include "core/negotiation/claims.hpp"
#include "core/negotiation/tree_messages.hpp"
#include "core/operations/groups.hpp"
#include "tests/core/runtime/two_members.hpp"

namespace rueda::tests {
namespace {

using collectives::Operation;
using core::EntryKind;

/// A batch that member 0 has prepared for execution.
struct Batch {
    explicit Batch(const TwoMembers& set)
        : announced(set.view(0)), outputs(set.identity(), 0), called(set.view(0), announced, outputs) {}
    /// Adds an entry of the log to a batch that begins at position 9.
    Status add(core::TensorEntry& entry, std::uint64_t position = 9, std::uint32_t attachment = 0) {
        core::CalledBatch::Call call{EntryKind::call, entry.slot};
        call.attachment = attachment;
        return called.add(entry, call, position);
    }
    core::Announced announced;
    core::RowOutputs outputs;
    core::CalledBatch called;
};

TEST_CASE("a batch has a segment for each tensor, and a place for each member's share", "[threads]") {
    const TwoMembers set;
    std::array<Pending, 2> own{Pending(1), Pending(2)};
    std::array<Pending, 2> other{Pending(11), Pending(12)};
    Batch batch(set);
    batch.called.begin(9, 11);
    for (std::size_t i = 0; i < 2; ++i) {
        own[i].options.reduce_op = i == 0 ? RUEDA_SUM : RUEDA_MAX;
        own[i].allreduce().entry.slot = TwoMembers::kSlot + static_cast<std::uint32_t>(i);
        other[i].allreduce().entry.slot = own[i].entry.slot;
        set.announce(0, own[i].entry);
        set.announce(1, other[i].entry);
        REQUIRE(batch.add(own[i].entry, 9 + i).is_ok());
    }
    const collectives::Batch made = batch.called.for_communicator();
    CHECK(made.operation == Operation::allreduce);
    REQUIRE(made.segments.size() == 2);
    CHECK(made.segments[0].reduce_op == ReduceOp::sum);
    CHECK(made.segments[1].reduce_op == ReduceOp::max);
    CHECK(made.rows.empty());
    for (std::size_t i = 0; i < 2; ++i) {
        INFO("segment " << i);
        CHECK(made.segments[i].count == 4);
        CHECK(made.segments[i].input == reinterpret_cast<std::byte*>(own[i].values.data()));
        const auto locations = made.locations_of(i, 2);
        CHECK(std::memcmp(locations[1].payload, other[i].values.data(), 16) == 0);
        CHECK(batch.called.entries()[i] == &own[i].entry);
    }
}

TEST_CASE("a batch calls what can go together, and nothing twice", "[threads]") {
    const TwoMembers set;
    Pending reduced;
    Pending gathered(1, 2);
    gathered.allgather().entry.slot = TwoMembers::kSlot + 1;
    for (std::uint32_t rank = 0; rank < 2; ++rank) {
        set.announce(rank, reduced.allreduce().entry);
        set.announce(rank, gathered.entry);
    }
    Batch batch(set);
    batch.called.begin(9, 11);
    REQUIRE(batch.add(reduced.entry).is_ok());
    for (core::TensorEntry* entry : {&reduced.entry, &gathered.entry}) {
        const Status refused = batch.add(*entry, 10);
        CHECK(refused.code() == ErrorCode::internal);
        CHECK(refused.message() ==
              fmt::format("entry 10 of the log calls slot {} in a batch in which it cannot be", entry->slot));
    }
    batch.called.begin(10, 11);
    CHECK(batch.add(reduced.entry, 10).is_ok());
    CHECK(batch.called.entries().size() == 1);
}

TEST_CASE("joined ranks are counted in a segment, and cannot be all", "[threads]") {
    const TwoMembers set;
    Pending own;
    Pending other;
    set.announce(0, own.allreduce().entry);
    other.allreduce().entry.stands_in = true;
    other.entry.is_counted = false;
    set.announce(1, other.entry);
    Batch batch(set);
    batch.called.begin(9, 10);
    REQUIRE(batch.add(own.entry).is_ok());
    CHECK(batch.called.for_communicator().segments[0].absent == 1);
    CHECK(batch.called.for_communicator().segments[0].uncounted == 1);

    own.entry.stands_in = true;
    batch.called.begin(10, 11);
    CHECK(batch.add(own.entry, 10).message() ==
          "tensor 'pending': the log calls its allreduce with 2 of 2 ranks joined");
}

TEST_CASE("a gather's splits are for its root alone", "[threads]") {
    const TwoMembers set;
    Pending own(1, 3);
    Pending root(1, 2);
    set.announce(0, own.gather(0).entry);
    set.announce(1, root.gather(1).entry);
    Batch batch(set);
    batch.called.begin(9, 10);
    REQUIRE(batch.add(own.entry).is_ok());
    const collectives::Batch made = batch.called.for_communicator();
    CHECK(std::vector<std::int64_t>(made.splits.begin(), made.splits.end()) == std::vector<std::int64_t>{0, 3, 0, 2});
    CHECK(made.segments[0].output == nullptr);
    CHECK(batch.called.members() == 2);
    CHECK(batch.called.rows_of(0) == 3);
    CHECK(batch.called.rows_of(1) == 2);
}

TEST_CASE("ranks that have joined announce no number of members", "[threads]") {
    const TwoMembers set;
    Pending own;
    Pending other;
    core::make_count(3, 7, own.entry.request);
    other.entry.stands_in = true;
    set.announce(0, own.entry);
    set.announce(1, other.entry);
    Batch batch(set);
    batch.called.begin(9, 10);
    REQUIRE(batch.add(own.entry).is_ok());
    CHECK(batch.called.operation() == Operation::group);
    CHECK(batch.called.rows_of(0) == 3);
    CHECK(batch.called.rows_of(1) == std::nullopt);
}

/// Writes the first dimensions of three members into the first attachment. The third member is on another host.
void attach(const TwoMembers& set, std::array<std::int64_t, 3> rows) {
    std::memcpy(set.memory().attachment(0), rows.data(), sizeof(rows));
}

TEST_CASE("on several hosts the call contains the number of rows of each rank", "[threads]") {
    const TwoMembers set(/*attachments=*/4);
    Pending own(1, 3);
    Pending other(1, 2);
    set.announce(0, own.allgather().entry);
    set.announce(1, other.allgather().entry);
    attach(set, {99, 2, 4});
    Batch batch(set);
    batch.called.begin(9, 10);
    REQUIRE(batch.add(own.entry, 9, 1).is_ok());
    const collectives::Batch made = batch.called.for_communicator();
    // The attachment gives 99 rows for this rank. The batch must ignore this number, because this rank's own input has
    // 3 rows.
    CHECK(std::vector<std::int64_t>(made.rows.begin(), made.rows.end()) == std::vector<std::int64_t>{3, 2, 4});
    CHECK(own.completion.output().shape == std::vector<std::int64_t>{9, 4});

    batch.called.begin(10, 11);
    CHECK(batch.add(own.entry, 10, 0).message() ==
          "tensor 'pending': the log calls it without the first dimensions of its ranks");
    batch.called.begin(11, 12);
    CHECK(batch.add(own.entry, 11, 5).message() == "the log has an attachment 5, of 4");
    attach(set, {3, core::kJoinedRows, 4});
    core::make_count(3, 7, own.entry.request);
    batch.called.begin(12, 13);
    REQUIRE(batch.add(own.entry, 12, 1).is_ok());
    CHECK(batch.called.rows_of(1) == std::nullopt);
    CHECK(batch.called.rows_of(2) == 4);
}

TEST_CASE("on several hosts splits are exchanged before the output is made", "[threads]") {
    const TwoMembers set(/*attachments=*/4);
    Pending own(1, 6);
    Pending other(1, 3);
    set.announce(0, own.alltoall(std::array<std::int64_t, 3>{1, 2, 3}).entry);
    set.announce(1, other.alltoall(std::array<std::int64_t, 3>{1, 1, 1}).entry);
    attach(set, {6, 3, 9});
    Batch batch(set);
    batch.called.begin(9, 10);
    REQUIRE(batch.add(own.entry, 9, 1).is_ok());
    CHECK(own.completion.output().memory == nullptr);
    const core::CalledBatch::Splits splits = batch.called.begin_splits();
    CHECK(std::vector<std::int64_t>(splits.to.begin(), splits.to.end()) == std::vector<std::int64_t>{1, 2, 3});
    const auto receive = [&](std::array<std::int64_t, 3> from) {
        std::copy(from.begin(), from.end(), splits.from.begin());
        return batch.called.take_splits();
    };
    REQUIRE(receive({1, 1, 5}).is_ok());
    CHECK(own.completion.received_splits == std::vector<std::int64_t>{1, 1, 5});
    CHECK(own.completion.output().shape == std::vector<std::int64_t>{7, 4});
    CHECK(batch.called.for_communicator().segments[0].output == own.completion.output().memory.get());
    CHECK(receive({1, 1, -1}).message() == "tensor 'pending': rank 8 says that it sends -1 rows");
    constexpr std::int64_t kMost = std::numeric_limits<std::int64_t>::max();
    CHECK(receive({1, 1, kMost}).message() == "tensor 'pending': the received first dimensions overflow");
}

}  // namespace
}  // namespace rueda::tests
