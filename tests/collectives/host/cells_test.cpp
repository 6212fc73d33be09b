// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The Rueda authors
// One thread takes the steps of two members in a chosen order. The tests check which member writes to a cell (the
// buffer of a chunk), and when.
#include <algorithm>
#include <array>
#include <catch2/catch.hpp>
#include <cstddef>
#include <memory>
#include <numeric>
#include <utility>
#include <vector>

#include "collectives/host/tasks/allreduce_task.hpp"
#include "collectives/host/tasks/exchange_task.hpp"

namespace rueda::collectives {
namespace {

constexpr std::uint64_t kCellBytes = 64;
constexpr std::size_t kCellFloats = kCellBytes / sizeof(float);

std::array<std::shared_ptr<Arena>, 2> arenas_of_two(std::uint32_t cells, std::uint64_t cell_bytes = kCellBytes) {
    const ArenaPlan plan{.members = 2, .cell_bytes = cell_bytes, .cells_per_rank = cells};
    Result<base::UniqueFd> memory = Arena::create_memory(plan);
    REQUIRE(memory.is_ok());
    std::array<std::shared_ptr<Arena>, 2> arenas;
    for (std::uint32_t rank = 0; rank < 2; ++rank) {
        Result<std::shared_ptr<Arena>> mapped = Arena::map(base::duplicate(memory.value().value()), plan, rank);
        REQUIRE(mapped.is_ok());
        arenas[rank] = mapped.value();
    }
    arenas[0]->initialise();
    return arenas;
}

/// A member with its own mapping of the arena, a tensor, and memory for two gathered tensors.
struct Member {
    explicit Member(const std::shared_ptr<Arena>& arena, std::size_t count)
        : set(arena), allreduce(set), exchange(set), tensor(count), gathered(2 * count) {}

    void begin_allreduce() {
        segment = {.count = tensor.size(), .input = bytes(tensor), .output = bytes(tensor)};
        locations.assign(2, {});
        allreduce.begin(
            {.operation = Operation::allreduce, .segments = {&segment, 1}, .locations = locations, .splits = {}});
    }
    void begin_allgather() {
        segment = {.count = 1, .input = bytes(tensor), .output = bytes(gathered)};
        locations.assign(2, {.first_dimension = static_cast<std::int64_t>(tensor.size())});
        exchange.begin(
            {.operation = Operation::allgather, .segments = {&segment, 1}, .locations = locations, .splits = {}});
    }
    /// Begins an allgather whose inputs all lie in memory that both members can read.
    void begin_readable_allgather(std::vector<float>& first, std::vector<float>& second) {
        segment = {.count = 1, .input = bytes(tensor), .output = bytes(gathered)};
        locations = {{.input = bytes(first), .first_dimension = static_cast<std::int64_t>(first.size())},
                     {.input = bytes(second), .first_dimension = static_cast<std::int64_t>(second.size())}};
        exchange.begin(
            {.operation = Operation::allgather, .segments = {&segment, 1}, .locations = locations, .splits = {}});
    }
    void begin_broadcast() {
        segment = {.count = tensor.size(), .input = bytes(tensor), .output = bytes(tensor)};
        locations.assign(2, {});
        exchange.begin(
            {.operation = Operation::broadcast, .segments = {&segment, 1}, .locations = locations, .splits = {}});
    }
    static std::byte* bytes(std::vector<float>& of) { return reinterpret_cast<std::byte*>(of.data()); }

    HostSet set;
    AllreduceTask allreduce;
    ExchangeTask exchange;
    std::vector<float> tensor;
    std::vector<float> gathered;
    Segment segment;
    std::vector<Location> locations;
};

/// Calls step() until the task is done or waits for the other member.
StepResult run(Task& task) {
    StepResult result = StepResult::advanced;
    for (int step = 0; step < 1000 && result == StepResult::advanced; ++step) {
        result = task.step();
    }
    return result;
}

void run_both(Task& one, Task& other) {
    StepResult of_one = StepResult::waiting;
    StepResult of_other = StepResult::waiting;
    for (int turn = 0; turn < 1000 && (of_one != StepResult::done || of_other != StepResult::done); ++turn) {
        of_one = of_one == StepResult::done ? of_one : run(one);
        of_other = of_other == StepResult::done ? of_other : run(other);
    }
    REQUIRE(of_one == StepResult::done);
    REQUIRE(of_other == StepResult::done);
}

}  // namespace

TEST_CASE("two members change cells each time round, and never have the same one", "[unit]") {
    const auto arenas = arenas_of_two(4);
    const HostSet set(arenas[0]);
    for (std::uint64_t number = 0; number < 32; ++number) {
        INFO("chunk " << number);
        CHECK(set.exchanged_cell(0, number) != set.exchanged_cell(1, number));
        CHECK(set.exchanged_cell(0, number + 4) == set.exchanged_cell(1, number));
        CHECK(set.exchanged_cell(0, number + 8) == set.exchanged_cell(0, number));
    }
}

TEST_CASE("a member that has its results to fetch keeps its cells from an exchange that follows", "[unit]") {
    // There are two cells, and the allreduce has two chunks, one in each cell. After the allreduce, an exchange
    // follows. The exchange must not write its first chunk to a cell before the late member has fetched the allreduce's
    // chunk from this cell.
    constexpr std::size_t kCount = 2 * kCellFloats;
    const auto arenas = arenas_of_two(2);
    Member late(arenas[0], kCount);
    Member quick(arenas[1], kCount);
    std::iota(late.tensor.begin(), late.tensor.end(), 1.0F);
    std::iota(quick.tensor.begin(), quick.tensor.end(), 100.0F);

    late.begin_allreduce();
    quick.begin_allreduce();
    REQUIRE(run(late.allreduce) == StepResult::waiting);
    REQUIRE(run(quick.allreduce) == StepResult::waiting);
    // The late member takes steps until it has combined its shares of both chunks. It does not fetch a chunk yet.
    while (arenas[0]->progress(0).reduced.load() < 2) {
        REQUIRE(late.allreduce.step() == StepResult::advanced);
    }
    REQUIRE(run(quick.allreduce) == StepResult::done);

    // The exchange has other values than the allreduce, so that the test notices if results were overwritten.
    std::fill(quick.tensor.begin(), quick.tensor.end(), -1.0F);
    quick.begin_allgather();
    CHECK(run(quick.exchange) == StepResult::waiting);
    CHECK(run(late.allreduce) == StepResult::done);
    for (std::size_t i = 0; i < kCount; ++i) {
        CHECK(late.tensor[i] == 101.0F + 2.0F * static_cast<float>(i));
    }

    late.begin_allgather();
    run_both(late.exchange, quick.exchange);
    for (std::size_t i = 0; i < 2 * kCount; ++i) {
        CHECK(late.gathered[i] == (i < kCount ? 101.0F + 2.0F * static_cast<float>(i) : -1.0F));
        CHECK(quick.gathered[i] == late.gathered[i]);
    }
}

TEST_CASE("exchanges and allreduces follow each other through the same cells", "[unit]") {
    const auto arenas = arenas_of_two(2);
    for (std::size_t count : {1U, 16U, 17U, 100U, 300U}) {
        Member one(arenas[0], count);
        Member other(arenas[1], count);
        one.set.chunks = other.set.chunks = arenas[0]->progress(0).staged.load();
        std::iota(one.tensor.begin(), one.tensor.end(), 0.0F);
        std::iota(other.tensor.begin(), other.tensor.end(), 5.0F);
        float factor = 1;
        for (int round = 0; round < 5; ++round) {
            one.begin_allreduce();
            other.begin_allreduce();
            run_both(one.allreduce, other.allreduce);
            one.begin_allgather();
            other.begin_allgather();
            run_both(other.exchange, one.exchange);
            for (std::size_t i = 0; i < 2 * count; ++i) {
                const float expected = factor * (5.0F + 2.0F * static_cast<float>(i % count));
                CHECK(one.gathered[i] == expected);
                CHECK(other.gathered[i] == expected);
            }
            factor *= 2;
        }
    }
}

TEST_CASE("small broadcasts go to the places of a cell in turn", "[unit]") {
    // A chunk of a broadcast has at least 8 KiB. A cell has 32 KiB, so it has space for four chunks.
    constexpr std::size_t kPlaceFloats = 8 * 1024 / sizeof(float);
    constexpr std::size_t kPlaces = 4;
    constexpr std::size_t kCells = 2;
    const auto arenas = arenas_of_two(kCells, kPlaces * kPlaceFloats * sizeof(float));
    Member root(arenas[0], kPlaceFloats);
    Member reader(arenas[1], kPlaceFloats);
    for (std::size_t number = 0; number < 3 * kPlaces * kCells; ++number) {
        INFO("broadcast " << number);
        std::iota(root.tensor.begin(), root.tensor.end(), static_cast<float>(100 * number));
        root.begin_broadcast();
        reader.begin_broadcast();
        run_both(root.exchange, reader.exchange);
        CHECK(reader.tensor == root.tensor);
        const auto* cell = reinterpret_cast<const float*>(arenas[1]->cell(0, number % kCells));
        const float* place = cell + number / kCells % kPlaces * kPlaceFloats;
        CHECK(std::equal(root.tensor.begin(), root.tensor.end(), place));
    }
}

TEST_CASE("a root that is ahead overwrites no place that the reader still needs", "[unit]") {
    // 40,000 bytes in chunks of 9,984 bytes; a cell of 32 KiB has space for three chunks
    constexpr std::size_t kCount = 10000;
    const auto arenas = arenas_of_two(2, 32 * 1024);
    Member root(arenas[0], kCount);
    Member reader(arenas[1], kCount);
    for (int round = 0; round < 20; ++round) {
        INFO("round " << round);
        std::iota(root.tensor.begin(), root.tensor.end(), static_cast<float>(round));
        root.begin_broadcast();
        reader.begin_broadcast();
        REQUIRE(run(root.exchange) == StepResult::waiting);  // the root has filled both cells and waits for the reader
        CHECK(arenas[0]->progress(0).staged.load() - arenas[1]->progress(1).fetched.load() == 2);
        run_both(reader.exchange, root.exchange);
        CHECK(reader.tensor == root.tensor);
    }
}

TEST_CASE("an allgather without cells copies a member's own contribution first", "[unit]") {
    const auto arenas = arenas_of_two(2);  // cells of 64 bytes, so that each step copies only a few bytes
    for (const auto& [first, second] : {std::pair{200U, 40U}, {40U, 200U}, {160U, 160U}, {1U, 100U}, {0U, 50U}}) {
        INFO(first << " and " << second << " elements");
        Member one(arenas[0], first);
        Member other(arenas[1], second);
        one.set.chunks = other.set.chunks = arenas[0]->progress(0).staged.load();
        std::iota(one.tensor.begin(), one.tensor.end(), 1.0F);
        std::iota(other.tensor.begin(), other.tensor.end(), 1000.0F);
        one.gathered.assign(first + second, -1.0F);
        other.gathered.assign(first + second, -1.0F);
        one.begin_readable_allgather(one.tensor, other.tensor);
        other.begin_readable_allgather(one.tensor, other.tensor);

        // A member first copies its own contribution completely. Only then does it copy from the other member.
        const auto is_written = [](float value) { return value != -1.0F; };
        while (second > 0 && !is_written(other.gathered.back())) {
            REQUIRE(std::none_of(other.gathered.begin(), other.gathered.begin() + first, is_written));
            REQUIRE(other.exchange.step() == StepResult::advanced);
        }
        run_both(one.exchange, other.exchange);
        std::vector<float> expected = one.tensor;
        expected.insert(expected.end(), other.tensor.begin(), other.tensor.end());
        CHECK(one.gathered == expected);
        CHECK(other.gathered == expected);
    }
}

}  // namespace rueda::collectives
