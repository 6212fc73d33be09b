// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The Rueda authors
#include <catch2/catch.hpp>
#include <utility>
#include <vector>

#include "core/negotiation/batch_end.hpp"
#include "tests/core/interleavings/explored_set.hpp"
#include "tests/support/explorer/check_passed.hpp"

/// Threads append to the log and read it. All readers must divide the log into the same batches, whichever reader
/// closes a batch.
namespace rueda::core::test {
namespace {

constexpr NegotiationExtent kTiny = {.members = 2, .unnamed_slots = 0, .slots = 1, .mailbox_records = 1};
constexpr std::uint64_t kRing = 8;  // number of entries in the ring
constexpr std::uint64_t kAnySize = 1000;

using Batches = std::vector<std::pair<std::uint64_t, std::uint64_t>>;

struct Reading : ExploredSet {
    Reading() : ExploredSet(kTiny) {}
    std::array<Log<ExploredAtomics>, 2> appenders{Log<ExploredAtomics>(memory, 0), Log<ExploredAtomics>(memory, 1)};
    /// One variable for each position in the ring. It stands for those members of an entry that are not atomic.
    std::array<ExploredPlain<std::uint32_t>, kRing> tensor;
    std::array<Batches, 2> seen;
    std::uint64_t first = 0;
};

Entry allreduce_of(std::uint32_t slot) { return {EntryKind::call, slot, 0, 0, Fusion::allreduces, 4}; }

void append(Reading& s, std::size_t appender, std::uint32_t slot,
            std::uint64_t begins_batch_at = Log<ExploredAtomics>::kNowhere) {
    s.tensor[slot].write(slot + 1);
    s.appenders[appender].append(allreduce_of(slot), begins_batch_at);
}

/// Returns the end of the batch, which it finds with the same steps as BatchRunner::start_batch().
std::uint64_t agreed_end(Reading& s, std::uint64_t begin) {
    const std::uint64_t end = s.log.end_of_batch(begin);
    return end != Log<ExploredAtomics>::kOpen ? end
                                              : s.log.close_batch(begin, propose_batch_end(s.log, begin, kAnySize).end);
}
std::uint64_t own_end(Reading& s, std::uint64_t begin) { return propose_batch_end(s.log, begin, kAnySize).end; }

template <std::uint64_t (*end_of)(Reading&, std::uint64_t)>
void read(Reading& s, std::size_t reader, std::uint64_t entries) {
    std::uint64_t begin = s.first;
    while (begin < s.first + entries) {
        while (!s.log.is_published(begin)) {
            ExploredAtomics::pause();
        }
        const std::uint64_t end = end_of(s, begin);
        RUEDA_EXPLORER_REQUIRE(s.log.is_plausible_end(begin, end) && end <= s.first + entries);
        for (std::uint64_t position = begin; position < end; ++position) {
            const std::uint32_t slot = s.log.read(position).slot;
            RUEDA_EXPLORER_REQUIRE(s.tensor[slot].read() == slot + 1);
        }
        s.seen[reader].emplace_back(begin, end);
        begin = end;
    }
}

void require_same_batches(Reading& s) {
    RUEDA_EXPLORER_REQUIRE(!s.seen[0].empty());
    RUEDA_EXPLORER_REQUIRE(s.seen[0] == s.seen[1]);
}

/// Fills the ring, and reads all its entries in batches of `batch` entries. The next entry then overwrites the first
/// one.
void come_round(Reading& s, std::uint64_t batch) {
    for (std::uint64_t position = 0; position < kRing; ++position) {
        s.appenders[0].append(allreduce_of(0));
    }
    for (std::uint64_t begin = 0; begin < kRing; begin += batch) {
        RUEDA_EXPLORER_REQUIRE(s.log.close_batch(begin, begin + batch) == begin + batch);
    }
    s.memory.cursor(0).position.store(kRing);
    s.memory.cursor(1).position.store(kRing);
    s.first = kRing;
}

TEST_CASE("two appenders, two readers: the same batches, and no entry is lost", "[unit]") {
    check_passed(
        explore<Reading>([](Reading&) {},
                         {[=](Reading& s) { append(s, 0, 0, 0); }, [](Reading& s) { append(s, 1, 1); },
                          [](Reading& s) { read<agreed_end>(s, 0, 2); }, [](Reading& s) { read<agreed_end>(s, 1, 2); }},
                         require_same_batches));
}

/// Returns the batch end that the appender wrote. On several hosts, the leader appends whole batches, so readers do not
/// close them.
std::uint64_t written_end(Reading& s, std::uint64_t begin) { return s.log.end_of_batch(begin); }

TEST_CASE("a batch that is appended as a whole is seen as a whole", "[unit]") {
    for (const Orders memory : {Orders::sequentially_consistent, Orders::store_buffers}) {
        check_passed(explore<Reading>(
            [](Reading& s) { come_round(s, 8); },
            {[](Reading& s) {
                 s.tensor[0].write(1);
                 s.tensor[1].write(2);
                 const std::array<Entry, 2> batch{allreduce_of(0), allreduce_of(1)};
                 s.appenders[0].append_batch(batch);
             },
             [](Reading& s) { read<written_end>(s, 0, 2); }, [](Reading& s) { read<written_end>(s, 1, 2); }},
            [](Reading& s) {
                RUEDA_EXPLORER_REQUIRE(s.seen[0] == Batches({{kRing, kRing + 2}}) && s.seen[0] == s.seen[1]);
            },
            {.memory = memory}));
    }
}

TEST_CASE("an end from the previous round of the ring is not taken for the end of a batch", "[unit]") {
    // The ring still contains a batch end from its previous round. With batches of 8, this old batch end is equal to
    // the position at which the next batch begins.
    for (const std::uint64_t batch : {1U, 8U}) {
        // The position at which the batch begins, or kNowhere if the appender does not know it.
        const std::uint64_t known = batch == 1 ? Log<ExploredAtomics>::kNowhere : kRing;
        for (const Orders memory : {Orders::sequentially_consistent, Orders::store_buffers}) {
            check_passed(explore<Reading>(
                [=](Reading& s) { come_round(s, batch); },
                {[=](Reading& s) {
                     append(s, 0, 0, known);
                     append(s, 0, 1);
                 },
                 [](Reading& s) { read<agreed_end>(s, 0, 2); }, [](Reading& s) { read<agreed_end>(s, 1, 2); }},
                require_same_batches, {.memory = memory}));
        }
    }
}

TEST_CASE("readers that do not agree on the end are found", "[unit]") {
    const auto result =
        explore<Reading>([](Reading&) {},
                         {[](Reading& s) {
                              append(s, 0, 0);
                              append(s, 0, 1);
                          },
                          [](Reading& s) { read<own_end>(s, 0, 2); }, [](Reading& s) { read<own_end>(s, 1, 2); }},
                         require_same_batches);
    CHECK(result.failure == Failure::check);
}

}  // namespace
}  // namespace rueda::core::test
