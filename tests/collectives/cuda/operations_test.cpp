// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The Rueda authors
// Runs all operations of the CUDA plugin on the stand-in for the driver and NCCL, and compares the results with values
// that are computed on the host.
#include <algorithm>
#include <catch2/catch.hpp>
#include <cmath>
#include <memory>
#include <numeric>
#include <random>
#include <stdexcept>
#include <string>
#include <vector>

#include "collectives/rows.hpp"
#include "tests/collectives/cuda/allreduces.hpp"
#include "tests/collectives/cuda/elements.hpp"
#include "tests/collectives/cuda/members.hpp"
#include "tests/support/gpu_stand_in/control.hpp"

namespace rueda::tests {
namespace {

/// Checks `bytes` against the values of a member's tensor, from element `begin` on.
void require_values(const std::string& what, DType dtype, const std::vector<std::byte>& bytes, std::uint32_t member,
                    std::size_t begin = 0) {
    const auto found = decode(dtype, bytes);
    const auto expected = values_of(dtype, ReduceOp::sum, member, found.size(), begin);
    for (std::size_t i = 0; i < found.size(); ++i) {
        require_equal(what + " element " + std::to_string(i), found[i], expected[i], 0);
    }
}

TEST_CASE("allreduce of all types and operations", "[gpu]") {
    for (const std::uint32_t members : {1U, 2U, 3U, 5U, 8U}) {
        run_both_ways(members, 100 + members, [](Member& member) {
            const auto communicator = member.connect();
            allreduce(member, *communicator, every_reduction(0, false), {}, false);
            allreduce(member, *communicator, every_reduction(0, true), {}, true);
        });
    }
}

TEST_CASE("members that have joined change only the divisor", "[gpu]") {
    for (const std::uint32_t members : {2U, 4U, 7U}) {
        run_both_ways(members, 200 + members, [members](Member& member) {
            const auto communicator = member.connect();
            allreduce(member, *communicator, every_reduction(1, false), {1}, false);
            allreduce(
                member, *communicator, every_reduction(members - 1, true),
                [&] {
                    std::vector<std::uint32_t> joined(members - 1);
                    std::iota(joined.begin(), joined.end(), 1);
                    return joined;
                }(),
                false);
        });
    }
}

TEST_CASE("broadcast and reduce from and to every root, in batches", "[gpu]") {
    for (const std::uint32_t members : {1U, 2U, 4U}) {
        run_both_ways(members, 300 + members, [](Member& member) {
            const auto communicator = member.connect();
            for (std::uint32_t root = 0; root < member.members(); ++root) {
                const bool is_root = root == member.number();
                std::vector<Segment> segments;
                for (const DType dtype : {DType::int16, DType::boolean, DType::float64}) {
                    Segment segment{.dtype = dtype, .root = root, .count = 100 + root};
                    if (is_root) {
                        segment.input = member.put(encode(dtype, values_of(dtype, ReduceOp::sum, root, segment.count)));
                    }
                    segment.output = member.garbage(segment.bytes());
                    segments.push_back(segment);
                }
                require_ok(member.run(*communicator, {.operation = Operation::broadcast, .segments = segments}));
                for (const Segment& segment : segments) {
                    require_values("broadcast", segment.dtype, member.get(segment.output, segment.bytes()), root);
                }
                Segment reduced{.dtype = DType::int32, .reduce_op = ReduceOp::sum, .root = root, .count = 77};
                reduced.input = member.put(
                    encode(reduced.dtype, values_of(reduced.dtype, ReduceOp::sum, member.number(), reduced.count)));
                reduced.output = is_root ? member.garbage(reduced.bytes()) : nullptr;
                require_ok(member.run(*communicator, {.operation = Operation::reduce, .segments = {&reduced, 1}}));
                std::vector<std::uint32_t> all(member.members());
                std::iota(all.begin(), all.end(), 0);
                const auto found = is_root ? decode(reduced.dtype, member.get(reduced.output, reduced.bytes()))
                                           : std::vector<double>();
                for (std::size_t i = 0; i < found.size(); ++i) {
                    require_equal("reduce", found[i], expected_of(reduced, all, member.members(), i), 0);
                }
            }
        });
    }
}

void allgather(Member& member, DeviceCommunicator& communicator, const std::vector<std::int64_t>& rows, DType dtype,
               bool drops) {
    Segment segment{.dtype = dtype, .count = 3};
    const auto own = static_cast<std::size_t>(rows[member.number()]) * segment.count;
    const auto total =
        static_cast<std::size_t>(std::accumulate(rows.begin(), rows.end(), std::int64_t{0})) * segment.bytes();
    segment.input = member.put(encode(dtype, values_of(dtype, ReduceOp::sum, member.number(), own)));
    segment.output = drops ? nullptr : member.garbage(total);
    require_ok(member.run(communicator, {.operation = Operation::allgather, .segments = {&segment, 1}, .rows = rows}));
    const auto found = drops ? std::vector<std::byte>() : member.get(segment.output, total);
    std::size_t begin = 0;
    for (std::uint32_t m = 0; m < member.members() && !drops; ++m) {
        const std::size_t bytes = static_cast<std::size_t>(rows[m]) * segment.bytes();
        require_values("allgather from " + std::to_string(m), dtype,
                       {found.begin() + static_cast<std::ptrdiff_t>(begin),
                        found.begin() + static_cast<std::ptrdiff_t>(begin + bytes)},
                       m);
        begin += bytes;
    }
}

TEST_CASE("allgather of equal, different and no rows", "[gpu]") {
    for (const std::uint32_t members : {1U, 2U, 3U, 8U}) {
        run_both_ways(members, 400 + members, [](Member& member) {
            const auto communicator = member.connect();
            std::mt19937 random(7);  // every member seeds this generator alike, so all members draw the same rows
            for (int round = 0; round < 6; ++round) {
                std::vector<std::int64_t> rows(member.members(), round);
                if (round % 2 == 1) {
                    std::generate(rows.begin(), rows.end(), [&] { return static_cast<std::int64_t>(random() % 4); });
                }
                allgather(member, *communicator, rows, round < 3 ? DType::float32 : DType::int16,
                          round == 4 && member.number() == 0);
            }
        });
    }
}

TEST_CASE("reducescatter of shares that are equal and of others", "[gpu]") {
    for (const std::uint32_t members : {1U, 2U, 3U, 8U}) {
        run_both_ways(members, 500 + members, [](Member& member) {
            const auto communicator = member.connect();
            std::vector<std::uint32_t> all(member.members());
            std::iota(all.begin(), all.end(), 0);
            for (const std::int64_t total : {std::int64_t{0}, std::int64_t{2}, std::int64_t{24}, std::int64_t{29}}) {
                const Rows own = rows_of_member(total, member.number(), member.members());
                const std::vector<std::int64_t> rows(member.members(), total);
                Segment segment{.dtype = DType::float32, .reduce_op = ReduceOp::average, .prescale = 2.0, .count = 5};
                const auto count = static_cast<std::size_t>(total) * segment.count;
                const auto bytes = static_cast<std::size_t>(own.count) * segment.bytes();
                segment.input = member.put(
                    encode(segment.dtype, values_of(segment.dtype, segment.reduce_op, member.number(), count)));
                segment.output = member.garbage(bytes);
                require_ok(member.run(
                    *communicator, {.operation = Operation::reducescatter, .segments = {&segment, 1}, .rows = rows}));
                const auto found = decode(segment.dtype, member.get(segment.output, bytes));
                for (std::size_t i = 0; i < found.size(); ++i) {
                    const std::size_t at = static_cast<std::size_t>(own.begin) * segment.count + i;
                    require_equal("reducescatter", found[i], expected_of(segment, all, member.members(), at), 1e-5);
                }
            }
        });
    }
}

/// Runs an alltoall, a gather or a scatter. `rows_to(from, to)` tells how many rows a member sends to another one.
/// Every member's input has the values of value_of(). The input contains the parts for the members, one after another.
void exchange(Member& member, DeviceCommunicator& communicator, Operation operation,
              const std::function<std::int64_t(std::uint32_t from, std::uint32_t to)>& rows_to, bool drops) {
    Segment segment{.dtype = DType::uint16, .count = 4};
    std::vector<std::int64_t> splits;
    for (std::uint32_t to = 0; to < member.members(); ++to) {
        splits.push_back(rows_to(member.number(), to));
    }
    const auto sent = static_cast<std::size_t>(std::accumulate(splits.begin(), splits.end(), std::int64_t{0}));
    for (std::uint32_t from = 0; from < member.members(); ++from) {
        splits.push_back(rows_to(from, member.number()));
    }
    const auto received =
        static_cast<std::size_t>(std::accumulate(splits.begin() + member.members(), splits.end(), std::int64_t{0}));
    segment.input = member.put(
        encode(segment.dtype, values_of(segment.dtype, ReduceOp::sum, member.number(), sent * segment.count)));
    segment.output = drops ? nullptr : member.garbage(received * segment.bytes());
    require_ok(member.run(communicator, {.operation = operation, .segments = {&segment, 1}, .splits = splits}));
    const auto found = drops ? std::vector<std::byte>() : member.get(segment.output, received * segment.bytes());
    auto next = found.begin();
    for (std::uint32_t from = 0; from < member.members() && !drops; ++from) {
        std::int64_t before = 0;
        for (std::uint32_t to = 0; to < member.number(); ++to) {
            before += rows_to(from, to);
        }
        const auto bytes =
            static_cast<std::ptrdiff_t>(static_cast<std::size_t>(rows_to(from, member.number())) * segment.bytes());
        require_values(std::string(name_of(operation)) + " from " + std::to_string(from), segment.dtype,
                       {next, next + bytes}, from, static_cast<std::size_t>(before) * segment.count);
        next += bytes;
    }
}

TEST_CASE("alltoall, gather and scatter of any number of rows", "[gpu]") {
    for (const std::uint32_t members : {1U, 2U, 3U, 8U}) {
        run_both_ways(members, 600 + members, [](Member& member) {
            const auto communicator = member.connect();
            for (int round = 0; round < 4; ++round) {
                const auto rows = [round](std::uint32_t from, std::uint32_t to) {
                    return round == 0 ? std::int64_t{1} : static_cast<std::int64_t>((from * 3 + to * 5) % 4);
                };
                exchange(member, *communicator, Operation::alltoall, rows, round == 3 && member.number() == 0);
            }
            const std::uint32_t root = member.members() - 1;
            exchange(
                member, *communicator, Operation::gather,
                [root](std::uint32_t from, std::uint32_t to) { return std::int64_t{to == root ? from + 1 : 0}; },
                false);
            exchange(
                member, *communicator, Operation::scatter,
                [root](std::uint32_t from, std::uint32_t to) { return std::int64_t{from == root ? to + 1 : 0}; },
                false);
        });
    }
}

TEST_CASE("many batches without a wait of the host give the right results", "[gpu]") {
    for (const std::uint64_t seed : {1U, 2U, 3U, 4U, 5U}) {
        run_members(3, 3, seed, [](Member& member) {
            const auto communicator = member.connect();
            std::byte* const memory =
                member.put(encode(DType::int64, values_of(DType::int64, ReduceOp::max, member.number(), 500)));
            const Segment segment{
                .dtype = DType::int64, .reduce_op = ReduceOp::sum, .count = 500, .input = memory, .output = memory};
            const std::size_t waits = gpu::host_waits();
            for (int round = 0; round < 20; ++round) {
                require_ok(member.run(*communicator, {.segments = {&segment, 1}}));
            }
            member.meet();
            require_equal("host waits", static_cast<double>(gpu::host_waits() - waits), 0, 0);
            member.meet();
            const auto found = decode(segment.dtype, member.get(memory, segment.bytes()));
            for (std::size_t i = 0; i < found.size(); ++i) {
                double sum = 0;
                for (std::uint32_t m = 0; m < member.members(); ++m) {
                    sum += value_of(segment.dtype, ReduceOp::max, m, i);
                }
                require_equal("20 sums", found[i], sum * std::pow(3, 19), 0);
            }
        });
    }
}

TEST_CASE("two communicators of the same devices work one after the other", "[gpu]") {
    for (const std::uint64_t seed : {11U, 12U, 13U}) {
        run_members(4, 4, seed, [](Member& member) {
            const auto one = member.connect();
            const auto other = member.connect();
            for (int round = 0; round < 5; ++round) {
                allreduce(member, *one, {{.count = 100}, {.count = 0}}, {}, false);
                allreduce(member, *other, {{.dtype = DType::float64, .count = 10}}, {}, true);
            }
        });
    }
}

/// Overlapping process sets. All members launch the sets' batches in one order, and each member leaves out the sets to
/// which it does not belong.
void work_in_one_order(Member& member, std::uint64_t seed) {
    const std::vector<std::vector<std::uint32_t>> sets{{0, 1, 2, 3}, {0, 1}, {1, 2}, {0, 2, 3}, {3}};
    std::vector<std::unique_ptr<DeviceCommunicator>> communicators;
    std::vector<Segment> tensors;
    for (const auto& set : sets) {
        communicators.push_back(member.connect(set));
        std::byte* const memory = member.put(encode(DType::int64, std::vector<double>(50, member.number() + 1.0)));
        tensors.push_back(
            {.dtype = DType::int64, .reduce_op = ReduceOp::max, .count = 50, .input = memory, .output = memory});
    }
    std::mt19937_64 random(seed);  // every member seeds this generator alike, so all members use the same order
    for (int round = 0; round < 40; ++round) {
        const std::size_t set = random() % sets.size();
        if (communicators[set] != nullptr) {
            require_ok(member.run(*communicators[set], {.segments = {&tensors[set], 1}}));
        }
    }
    for (std::size_t set = 0; set < sets.size(); ++set) {
        if (communicators[set] != nullptr) {
            for (const double found : decode(DType::int64, member.get(tensors[set].output, tensors[set].bytes()))) {
                require_equal("the maximum", found, sets[set].back() + 1.0, 0);
            }
        }
    }
}

TEST_CASE("overlapping sets never deadlock if all members launch in one order", "[gpu]") {
    for (std::uint64_t seed = 1; seed <= 8; ++seed) {
        run_members(4, 4, seed, [seed](Member& member) { work_in_one_order(member, seed); });
    }
}

}  // namespace
}  // namespace rueda::tests
