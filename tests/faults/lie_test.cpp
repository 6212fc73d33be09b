// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The Rueda authors
// A rank announces values that no correct rank would announce. The errors of the other ranks must name this rank. The
// other ranks must access only the arena and their tensors.
#include <array>
#include <catch2/catch.hpp>
#include <functional>
#include <thread>

#include "core/negotiation/layout.hpp"
#include "core/negotiation/log.hpp"
#include "core/operations/groups.hpp"
#include "tests/faults/faults.hpp"
#include "tests/support/check_passed.hpp"

namespace rueda::tests {
namespace {

using Atomics = base::StdAtomics;
using Memory = core::NegotiationMemory<Atomics>;
using Place = core::Place<Atomics>;

constexpr std::uint32_t kSlot = 64;  // the first slot for names
constexpr std::int64_t kRow = 5;

/// Returns the job's negotiation tables, to which any rank of the host can write.
Memory memory_of(RuntimeClient& client) {
    std::byte* const tables = client.runtime().arena()->negotiation();
    return {tables, reinterpret_cast<const core::SetHeader<Atomics>*>(tables)->extent};
}

/// The announcement that the lying rank (the liar) makes. The default `flags` are those of a correct announcement.
struct Announced {
    std::int64_t first_dimension;
    std::uint32_t payload_bytes;
    std::vector<std::int64_t> splits;
    std::uint32_t flags = Place::kDirect | Place::kPayload;
};

void announce(const Memory& memory, std::uint32_t rank, std::uint64_t generation, const Announced& announced) {
    Place& place = memory.place(kSlot, rank, generation);
    place.flags = announced.flags;
    place.first_dimension = announced.first_dimension;
    place.payload_bytes = announced.payload_bytes;
    std::copy(announced.splits.begin(), announced.splits.end(), memory.splits(kSlot, rank, generation));
    place.stamp.store(generation + 1, std::memory_order_seq_cst);
}

void wait_for_announcement(const Memory& memory, std::uint32_t rank, std::uint64_t generation) {
    while (memory.place(kSlot, rank, generation).stamp.load(std::memory_order_seq_cst) != generation + 1) {
        std::this_thread::yield();
    }
}

enum class Kind { reducescatter, alltoall, allgather };

/// Runs one blocking operation on rows * kRow elements of float32, and checks its result. If the operation has splits,
/// they are all equal.
Status run_one(Client& client, Kind kind, std::int64_t rows, int salt) {
    const Buffer in(client, DType::float32, {rows, kRow}, false);
    fill_input(in.tensor(), ReduceOp::sum, client.rank(), salt);
    const std::int64_t share = rows / client.size();
    if (kind == Kind::reducescatter) {
        const Buffer out(client, DType::float32, {share, kRow}, false);
        const Status status = client.reducescatter("lie", in.tensor(), out.tensor(), {ReduceOp::sum});
        if (status.is_ok()) {
            check_reduction(out.tensor(), static_cast<std::size_t>(client.rank() * share * kRow), {ReduceOp::sum},
                            client.size(), salt, "lie");
        }
        return status;
    }
    const auto ended = kind == Kind::alltoall ? client.alltoall("lie", in.tensor(), std::nullopt, nullptr)
                                              : client.allgather("lie", in.tensor(), nullptr);
    if (!ended.is_ok()) {
        return ended.status();
    }
    const Status status = ended.value()->wait();
    const std::int64_t each = kind == Kind::alltoall ? share : rows;
    for (int from = 0; status.is_ok() && from < client.size(); ++from) {
        check_copy(ended.value()->output(), static_cast<std::size_t>(from * each * kRow),
                   static_cast<std::size_t>(each * kRow), from, salt, "lie",
                   kind == Kind::alltoall ? static_cast<std::size_t>(client.rank() * share * kRow) : 0);
    }
    return status;
}

/// The last rank makes `generations` correct announcements, and then a wrong one.
void lie(RankContext& context, RuntimeClient& client, Kind kind, std::int64_t rows, std::uint64_t generations,
         const Announced& announced) {
    for (std::uint64_t generation = 0; generation < generations; ++generation) {
        expect_ok(run_one(client, kind, rows, static_cast<int>(generation)), "before the lie");
    }
    const auto liar = static_cast<std::uint32_t>(client.size() - 1);
    if (client.rank() == static_cast<int>(liar)) {
        const Memory memory = memory_of(client);
        for (std::uint32_t rank = 0; rank < liar; ++rank) {
            wait_for_announcement(memory, rank, generations);
        }
        announce(memory, liar, generations, announced);
    }
    const Status status = client.rank() == static_cast<int>(liar)
                              ? reduce_until_failure(client, "other", false, 1, false)
                              : run_one(client, kind, rows, static_cast<int>(generations));
    context.report("code", rueda::name_of(status.code()));
    context.report("text", status.message());
}

void check_lie(int size, Kind kind, std::int64_t rows, const Announced& announced, const std::string& expected) {
    // In the negotiation table, each rank has one place for its announcements of even generations and one for those of
    // odd generations. In a job of two ranks, the ranks also swap their places every second generation. With 2, 4 and 5
    // earlier generations, the wrong announcement goes to both places of the rank, with and without the swap.
    for (const std::uint64_t generations : {2U, 4U, 5U}) {
        for (const RanksAs as : {RanksAs::threads, RanksAs::processes}) {
            const RanksResult result = run_clients(size, test_config(),
                                                   [&](RankContext& context, RuntimeClient& client) {
                                                       lie(context, client, kind, rows, generations, announced);
                                                   },
                                                   {.as = as, .deadline = std::chrono::seconds(30)});
            INFO(generations << " generations before\n" << result.text());
            CHECK(result.passed());
            for (int rank = 0; rank + 1 < size; ++rank) {
                const RankOutcome& survivor = result.ranks[static_cast<std::size_t>(rank)];
                CHECK(survivor.value("code") == "Internal");
                CHECK(survivor.value("text") == "tensor 'lie': rank " + std::to_string(size - 1) + expected);
            }
        }
    }
}

constexpr std::uint32_t kRowBytes = kRow * 4;

TEST_CASE("a reducescatter with other rows, or bytes, than were agreed on", "[faults]") {
    const int size = GENERATE(2, 3);
    const std::int64_t rows = 2 * size;
    check_lie(size, Kind::reducescatter, rows, {rows + 1, static_cast<std::uint32_t>(rows + 1) * kRowBytes, {}},
              fmt::format(" announced {} rows for a reducescatter of {}", rows + 1, rows));
    check_lie(size, Kind::reducescatter, rows, {rows, 64, {}},
              fmt::format(" announced a payload of 64 bytes for {}", rows * kRowBytes));
    check_lie(size, Kind::reducescatter, rows, {-1, 0, {}}, " announced a first dimension of -1");
    check_lie(size, Kind::reducescatter, rows, {std::int64_t{1} << 60, 0, {}},
              " announced a first dimension of 1152921504606846976");
    check_lie(size, Kind::reducescatter, rows, {rows, 0, {}, Place::kDirect},
              " announced directly, and without a payload");
    // 16 MiB do not fit into any payload.
    check_lie(size, Kind::reducescatter, rows, {838'861, 16'777'220, {}},
              " announced a payload of 16777220 bytes for 16777220");
}

TEST_CASE("an alltoall with splits that are not those of its rows", "[faults]") {
    const int size = GENERATE(2, 3);
    const std::int64_t rows = 3 * size;
    const auto bytes = static_cast<std::uint32_t>(rows) * kRowBytes;
    const std::string wrong = fmt::format(" announced splits that are not those of its {} rows", rows);
    const auto with = [&](std::int64_t first, std::int64_t second) {
        std::vector<std::int64_t> splits(static_cast<std::size_t>(size), 0);
        splits[0] = first;
        splits[1] = second;
        return splits;
    };
    check_lie(size, Kind::alltoall, rows, {rows, bytes, with(rows, 1)}, wrong);
    check_lie(size, Kind::alltoall, rows, {rows, bytes, with(rows - 1, 0)}, wrong);
    check_lie(size, Kind::alltoall, rows, {rows, bytes, with(-1, rows + 1)}, wrong);
    // The sum of these splits overflows, and the overflowed sum is the right number of rows.
    constexpr std::int64_t kMost = 0x7FFF'FFFF'FFFF'FFFF;
    check_lie(size, Kind::alltoall, rows, {rows, bytes, with(kMost, rows - kMost)}, wrong);
    check_lie(size, Kind::alltoall, rows,
              {rows + 1,
               bytes + static_cast<std::uint32_t>(kRowBytes),
               {},
               Place::kDirect | Place::kPayload | Place::kEvenSplits},
              fmt::format(" announced splits that are not those of its {} rows", rows + 1));
    check_lie(size, Kind::alltoall, rows, {rows, 80, with(rows, 0)},
              fmt::format(" announced a payload of 80 bytes for {}", bytes));
}

TEST_CASE("an allgather of rows that do not travel", "[faults]") {
    const int size = GENERATE(2, 3);
    check_lie(size, Kind::allgather, 4, {8, 4 * kRowBytes, {}},
              fmt::format(" announced a payload of {} bytes for {}", 4 * kRowBytes, 8 * kRowBytes));
}

/// The last rank marks every rank as joined in the negotiation table, and then appends a mismatch to the log.
void report_mismatch_among_joined(RankContext& context, RuntimeClient& client) {
    constexpr std::uint64_t kGenerations = 3;
    constexpr std::int64_t kRows = 6;
    for (std::uint64_t generation = 0; generation < kGenerations; ++generation) {
        expect_ok(run_one(client, Kind::allgather, kRows, static_cast<int>(generation)), "before the lie");
    }
    const auto liar = static_cast<std::uint32_t>(client.size() - 1);
    Status status;
    if (client.rank() == static_cast<int>(liar)) {
        const Memory memory = memory_of(client);
        for (std::uint32_t rank = 0; rank < liar; ++rank) {
            wait_for_announcement(memory, rank, kGenerations);
        }
        for (std::uint32_t rank = 0; rank <= liar; ++rank) {
            memory.place(kSlot, rank, kGenerations).flags = Place::kJoined;
        }
        core::Log<Atomics>(memory, liar).append({core::EntryKind::mismatch, kSlot}, core::Log<Atomics>::kNowhere);
        for (std::uint32_t rank = 0; rank < liar; ++rank) {
            client.runtime().control().ranks[rank].attention.ring_all();
        }
        // This rank waits until the other ranks have read the log entry. If this rank read the entry first, it would
        // end the job at once, because it has no operation in the slot. During the wait, only its background thread
        // reads the log, a few times a second.
        for (int rank = 0; rank < client.rank(); ++rank) {
            context.wait_for_phase(rank, "has ended");
        }
        status = reduce_until_failure(client, "other", false, 1, false);
    } else {
        status = run_one(client, Kind::allgather, kRows, kGenerations);
        context.phase("has ended");
    }
    context.report("code", rueda::name_of(status.code()));
    context.report("text", status.message());
}

TEST_CASE("a mismatch of which all places say that their ranks have joined", "[faults]") {
    const int size = GENERATE(2, 3);
    const std::string by_others = "tensor 'lie': the log reports a mismatch in slot 64, in which all ranks have joined";
    const std::string by_itself =
        fmt::format("tensor 'lie': the log reports a mismatch in slot 64, where rank {} has nothing pending", size - 1);
    int told_by_others = 0;
    for (const RanksAs as : {RanksAs::threads, RanksAs::processes}) {
        const RanksResult result = run_clients(size, test_config(), report_mismatch_among_joined,
                                               {.as = as, .deadline = std::chrono::seconds(30)});
        INFO(result.text());
        CHECK(result.passed());
        for (int rank = 0; rank + 1 < size; ++rank) {
            const RankOutcome& survivor = result.ranks[static_cast<std::size_t>(rank)];
            CHECK(survivor.value("code") == "Internal");
            const std::string& text = survivor.value("text");
            told_by_others += text == by_others ? 1 : 0;
            CHECK((text == by_others || text == by_itself));
        }
    }
    CHECK(told_by_others > 0);
}

/// Announces a group of a million members. The library of this rank would have refused such a group.
Status claim_members(RuntimeClient& client, const std::string& group) {
    core::Request count;
    core::make_count(core::kMostGroupMembers, 0, count);
    core::Completion completion;
    Status started = client.runtime().start(client.runtime().world(), nullptr, group, count, completion);
    return started.is_ok() ? client.runtime().wait(completion, -1) : started;
}

TEST_CASE("a group whose members' names would be too long", "[faults]") {
    const int size = GENERATE(2, 3);
    // The suffix "_1of2" fits after this name, but "_1000000of1000000" does not.
    const std::string group(RUEDA_MAX_NAME - 10, 'x');
    for (const RanksAs as : {RanksAs::threads, RanksAs::processes}) {
        const auto body = [&](RankContext& context, RuntimeClient& client) {
            const Buffer first(client, DType::float32, {3}, false);
            const Buffer second(client, DType::float32, {3}, false);
            Status ended;
            if (client.rank() == size - 1) {
                ended = claim_members(client, group);
            } else {
                const auto pending = client.start_group(group, {first.tensor(), second.tensor()}, {ReduceOp::sum});
                ended = pending.is_ok() ? pending.value()->wait() : pending.status();
            }
            context.report("code", rueda::name_of(ended.code()));
            context.report("text", ended.message());
        };
        const RanksResult result =
            run_clients(size, test_config(), body, {.as = as, .deadline = std::chrono::seconds(30)});
        INFO(result.text());
        CHECK(result.passed());
        for (int rank = 0; rank + 1 < size; ++rank) {
            const RankOutcome& survivor = result.ranks[static_cast<std::size_t>(rank)];
            CHECK(survivor.value("code") == "Internal");
            CHECK(survivor.value("text") ==
                  fmt::format(
                      "tensor '{}': rank {} announced a group of 1000000; expected at most 1000000, with names of at "
                      "most {} bytes for its members",
                      group, size - 1, RUEDA_MAX_NAME));
        }
    }
}

/// Rank 1 writes into the place of rank 0 in the negotiation table (the memory for rank 0's announcements), like a rank
/// that is one generation late. Rank 0 must use its own data instead.
void write_to_the_others_place(RankContext&, RuntimeClient& client, Kind kind) {
    constexpr std::int64_t kRows = 4;
    constexpr std::uint64_t kGenerations = 3;
    for (std::uint64_t generation = 0; generation < kGenerations; ++generation) {
        expect_ok(run_one(client, kind, kRows, static_cast<int>(generation)), "before the lie");
    }
    if (client.rank() == 0) {
        expect_ok(run_one(client, kind, kRows, kGenerations), "beside the lie");
        return;
    }
    const Memory memory = memory_of(client);
    wait_for_announcement(memory, 0, kGenerations);
    constexpr std::int64_t kMore = 1000;
    Place& other = memory.place(kSlot, 0, kGenerations);
    other.first_dimension = kMore;
    other.payload_bytes = kMore * kRowBytes;
    const Tensor payload{memory.payload(kSlot, 1, kGenerations, kRows * kRowBytes), DType::float32, {kRows, kRow}};
    fill_input(payload, ReduceOp::sum, 1, kGenerations);
    announce(memory, 1, kGenerations, {kRows, kRows * kRowBytes, {kRows / 2, kRows / 2}});
}

TEST_CASE("a rank takes its own rows from its caller, whatever its place says", "[faults]") {
    for (const Kind kind : {Kind::reducescatter, Kind::alltoall, Kind::allgather}) {
        check_passed(run_clients(
            2, test_config(),
            [&](RankContext& context, RuntimeClient& client) { write_to_the_others_place(context, client, kind); },
            {.as = RanksAs::processes, .deadline = std::chrono::seconds(30)}));
    }
}

}  // namespace
}  // namespace rueda::tests
