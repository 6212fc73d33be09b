// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The Rueda authors
// Tests device tensors that move through the host's memory, on the stand-in. The tests check when Rueda chooses this
// path, operations that NCCL does not have, several process sets, and failures. operations_test.cpp compares the
// results of all operations.
#include <algorithm>
#include <array>
#include <atomic>
#include <catch2/catch.hpp>
#include <chrono>
#include <memory>
#include <optional>
#include <random>
#include <span>
#include <stdexcept>
#include <string>
#include <thread>
#include <vector>

#include "tests/collectives/cuda/elements.hpp"
#include "tests/collectives/cuda/members.hpp"
#include "tests/support/gpu_stand_in/control.hpp"

namespace rueda::tests {
namespace {

using namespace std::chrono_literals;
using Clock = std::chrono::steady_clock;

void demand(bool is_true, const std::string& what) {
    if (!is_true) {
        throw std::runtime_error(what);
    }
}

bool says(const std::string& text, const std::string& part) { return text.find(part) != std::string::npos; }

/// A tensor of `count` elements with the member's number + 1, in place.
Segment tensor_of(Member& member, DType dtype, std::size_t count, ReduceOp op = ReduceOp::sum) {
    std::byte* const memory = member.put(encode(dtype, std::vector<double>(count, member.number() + 1.0)));
    return {.dtype = dtype, .reduce_op = op, .count = count, .input = memory, .output = memory};
}

void demand_all(Member& member, const Segment& segment, double expected) {
    for (const double found : decode(segment.dtype, member.get(segment.output, segment.bytes()))) {
        demand(found == expected, std::string(name_of(segment.dtype)) + ": " + std::to_string(found) + " instead of " +
                                      std::to_string(expected));
    }
}

double sum_of_numbers(const Member& member) { return member.members() * (member.members() + 1) / 2.0; }

TEST_CASE("members on one device use the host's memory, and one of them says why", "[gpu][staged]") {
    run_members(2, 1, 41, [](Member& member) {
        const auto communicator = member.connect();
        const Segment segment = tensor_of(member, DType::float32, 3000);
        demand(member.run(*communicator, {.segments = {&segment, 1}}).is_ok(), "the batch");
        demand_all(member, segment, 3);
        demand(gpu::nccl_operations().empty(), "NCCL did something");
        demand(member.warnings().size() == (member.number() == 0 ? 1U : 0U), "another number of warnings");
        if (member.number() == 0) {
            const std::string& line = member.warnings().front();
            demand(says(line, "process set 0 moves tensors on GPUs through the host's memory: ") &&
                       says(line, "ranks 0 (its GPU 0) and 1 (its GPU 0), which share the device GPU-"),
                   line);
        }
    });
}

TEST_CASE("members without NCCL use the host's memory", "[gpu][staged]") {
    GpuTables tables = tables_of_stand_in();
    tables.nccl.get_unique_id = [](cuda::NcclUniqueId*) { return cuda::kNcclSystemError; };
    run_members(
        3, 3, 42,
        [](Member& member) {
            const auto communicator = member.connect();
            const Segment segment = tensor_of(member, DType::int64, 10);
            demand(member.run(*communicator, {.segments = {&segment, 1}}).is_ok(), "the batch");
            demand_all(member, segment, 6);
            demand(member.number() != 0 || says(member.warnings().front(), "rank 0: ncclGetUniqueId failed"),
                   "another reason");
        },
        &tables);
}

TEST_CASE("members with different settings get the same error", "[gpu][staged]") {
    run_members(3, 3, 43, [](Member& member) {
        member.set_path(member.number() == 2 ? DevicePath::host : DevicePath::automatic);
        std::unique_ptr<DeviceCommunicator> communicator;
        const Status status = member.make(communicator);
        demand(status.code() == ErrorCode::mismatch &&
                   status.message() ==
                       "the ranks of this process set disagree about RUEDA_GPU_PATH: rank 0 has 'auto', but rank 2 has "
                       "'host'; give all ranks the same value",
               status.message());
    });
}

TEST_CASE("what NCCL does not have moves through the host's memory, beside NCCL", "[gpu][staged]") {
    for (const std::uint64_t seed : {44U, 45U, 46U}) {
        run_members(
            3, 3, seed,
            [](Member& member) {
                const auto communicator = member.connect();
                std::vector<Segment> segments{
                    tensor_of(member, DType::float32, 500), tensor_of(member, DType::int16, 700),
                    tensor_of(member, DType::float64, 300, ReduceOp::adasum), tensor_of(member, DType::int32, 90),
                    tensor_of(member, DType::float32, 20, ReduceOp::max)};
                segments[3].prescale = 2.0;
                segments[4].postscale = 0.5;
                for (const Segment& segment : segments) {
                    demand(communicator->check(Operation::allreduce, segment).is_ok(), "a refusal");
                }
                for (int round = 0; round < 3; ++round) {
                    demand(member.run(*communicator, {.segments = segments}).is_ok(), "the batch");
                }
                demand_all(member, segments[0], 6 * 9);
                demand_all(member, segments[1], 6 * 9);
                demand_all(member, segments[3], 12.0 * 6 * 6);
                demand_all(member, segments[4], 1.5 / 4);
                // The Adasum of parallel gradients is their average. The tree first combines the values 1 and 2, and
                // then their result and the value 3.
                const auto found = decode(DType::float64, member.get(segments[2].output, segments[2].bytes()));
                demand(std::all_of(found.begin(), found.end(), [](double x) { return x > 1 && x < 3; }), "Adasum");
                const auto operations = gpu::nccl_operations();
                demand(std::all_of(operations.begin(), operations.end(),
                                   [](const std::string& one) { return one == "ncclAllReduce 500 float32 sum"; }),
                       "NCCL got another tensor");
                member.meet();
            },
            nullptr, /*piece_bytes=*/600);
    }
}

TEST_CASE("with RUEDA_GPU_PATH=nccl, what NCCL does not have is refused", "[gpu][staged]") {
    run_members(2, 2, 47, [](Member& member) {
        member.set_path(DevicePath::nccl);
        const auto communicator = member.connect();
        const Status status = communicator->check(Operation::allreduce, {.dtype = DType::int16, .count = 1});
        demand(status.code() == ErrorCode::unsupported, status.message());
        demand(communicator->check(Operation::allreduce, {.dtype = DType::int32, .count = 1}).is_ok(), "a refusal");
    });
}

TEST_CASE("pinned memory is used again, and no host waits for the device", "[gpu][staged]") {
    run_members(
        2, 1, 48,
        [](Member& member) {
            member.set_path(DevicePath::host);
            const auto communicator = member.connect();
            const Segment segment = tensor_of(member, DType::int64, 2000, ReduceOp::max);
            member.meet();
            const std::size_t before = gpu::calls("cuMemHostAlloc");
            const std::size_t waits = gpu::host_waits();
            member.meet();
            for (int round = 0; round < 20; ++round) {
                demand(member.run(*communicator, {.segments = {&segment, 1}}).is_ok(), "the batch");
            }
            member.meet();
            demand(gpu::calls("cuMemHostAlloc") - before <= 2 * cuda::StagedTask::kBlocks, "too many allocations");
            demand(gpu::host_waits() == waits, "a wait of the host");
            member.meet();
            demand_all(member, segment, 2);
        },
        nullptr, /*piece_bytes=*/1000);
}

TEST_CASE("operations that cannot be divided use few blocks of pinned memory while they grow", "[gpu][staged]") {
    run_members(
        2, 1, 49,
        [](Member& member) {
            member.set_path(DevicePath::host);
            const auto communicator = member.connect();
            constexpr std::size_t kRow = 1000;
            constexpr std::int64_t kMost = 40;
            const Segment segment{.dtype = DType::float32,
                                  .count = kRow,
                                  .input = member.put(encode(DType::float32, std::vector<double>(kMost * kRow, 1.0))),
                                  .output = member.garbage(2 * kMost * kRow * sizeof(float))};
            member.meet();
            const std::size_t before = gpu::calls("cuMemHostAlloc");
            member.meet();
            for (std::int64_t rows = 1; rows <= kMost; ++rows) {
                const std::vector<std::int64_t> of_members{rows, rows};
                const Status status = member.run(
                    *communicator, {.operation = Operation::allgather, .segments = {&segment, 1}, .rows = of_members});
                demand(status.is_ok(), status.message());
            }
            member.meet();
            // The sizes are 16 to 512 KiB, and each member has one block of each size.
            demand(gpu::calls("cuMemHostAlloc") - before == 12, "another number of allocations");
            member.meet();
        },
        nullptr, /*piece_bytes=*/1000);
}

TEST_CASE("large blocks of pinned memory have few sizes", "[gpu][staged]") {
    run_members(1, 1, 50, [](Member& member) {
        auto device = cuda::Device::open(member.cuda(), member.device());
        demand(device.is_ok(), "the device");
        cuda::StagingDevice staging(device.value());
        const std::size_t before = gpu::calls("cuMemHostAlloc");
        for (std::size_t pieces = 1; pieces <= 16; ++pieces) {
            const auto block = staging.take(pieces * cuda::StagedTask::kPieceBytes);
            demand(block.is_ok() && block.value().bytes >= pieces * cuda::StagedTask::kPieceBytes, "the block");
            staging.give_back(block.value());
        }
        demand(gpu::calls("cuMemHostAlloc") - before == 5, "another number of allocations");
    });
}

/// Starts an allreduce as Member::run() does. `ready` and `locations` must live until the task is done.
Task& start_allreduce(DeviceCommunicator& communicator, std::span<const Segment> segments,
                      const std::vector<DeviceEventPtr>& ready, const std::vector<Location>& locations) {
    return communicator.start(
        {.segments = segments,
         .ready = ready,
         .host = {.operation = Operation::allreduce, .segments = segments, .locations = locations, .splits = {}}});
}

TEST_CASE("a mixed batch has its pinned memory before NCCL waits for another member", "[gpu][staged]") {
    std::atomic<bool> has_returned{false};  // relaxed: only the flag matters
    run_members(
        2, 2, 62,
        [&](Member& member) {
            const auto communicator = member.connect();
            const std::array segments{tensor_of(member, DType::float32, 500), tensor_of(member, DType::int16, 3000)};
            const auto recorded = member.runtime().record(member.stream());
            demand(recorded.is_ok(), "record");
            const std::vector<DeviceEventPtr> ready(2, recorded.value());
            const std::vector<Location> locations(4);
            gpu::settle();
            member.meet();
            gpu::set_allocations_wait(true);
            member.meet();
            const auto start = Clock::now();
            if (member.number() == 1) {
                while (!has_returned.load(std::memory_order_relaxed) && Clock::now() - start < 5s) {
                    std::this_thread::yield();
                }
            }
            Task& task = start_allreduce(*communicator, segments, ready, locations);
            if (member.number() == 0) {
                const Status status = Member::drive(*communicator, task, 200ms);
                has_returned.store(true, std::memory_order_relaxed);
                demand(status.code() == ErrorCode::timeout, "the batch did not wait for the other member");
                demand(Clock::now() - start < 4s, "an allocation waited for NCCL");
            }
            const Status status = Member::drive(*communicator, task);
            demand(status.is_ok(), status.message());
            demand(communicator->end()->make_wait(member.stream()).is_ok(), "the wait");
            member.meet();
            gpu::set_allocations_wait(false);
            demand_all(member, segments[0], 3);
            demand_all(member, segments[1], 3);
        },
        nullptr, /*piece_bytes=*/640);
}

TEST_CASE("the times of a mixed batch are those of NCCL's part, and a staged batch has none", "[gpu][staged]") {
    run_members(1, 1, 63, [](Member& member) {
        const auto communicator = member.connect();
        communicator->measure(true);
        const std::array segments{tensor_of(member, DType::float32, 500), tensor_of(member, DType::int16, 300)};
        std::optional<DeviceEvent::Times> times;
        // On a busy machine, some tries to measure the device's clock fail.
        for (const auto limit = Clock::now() + 20s; !times && Clock::now() < limit;) {
            demand(member.run(*communicator, {.segments = segments}).is_ok(), "the batch");
            demand_all(member, segments[1], 1);  // this check makes the host wait for the end of the batch
            const auto done = communicator->end()->is_done();
            demand(done.is_ok() && done.value(), "the batch is not done");
            times = communicator->end()->times();
        }
        demand(times && times->begin_ns > 0 && times->begin_ns <= times->end_ns, "the times");
        demand(member.run(*communicator, {.segments = {&segments[1], 1}}).is_ok(), "the staged batch");
        demand_all(member, segments[1], 1);
        demand(!communicator->end()->times().has_value(), "the times of an earlier batch");
    });
}

// Several process sets.

/// One member's communicator, tensor and event in one process set.
struct OwnSet {
    std::unique_ptr<DeviceCommunicator> communicator;
    Segment segment{};
    DeviceEventPtr ready{};
    std::vector<Location> locations{};
    Task* task = nullptr;
    int left = 0;  ///< batches to start
};

/// Runs the sets' batches as the engine does. The order of the sets may differ between the members.
void run_in_own_order(Member& member, std::vector<OwnSet>& sets, std::mt19937_64& random) {
    const auto limit = Clock::now() + 20s;
    while (std::any_of(sets.begin(), sets.end(), [](const OwnSet& s) { return s.left > 0 || s.task != nullptr; })) {
        demand(Clock::now() < limit, "the process sets block each other");
        OwnSet& set = sets[random() % sets.size()];
        if (set.task == nullptr && set.left > 0) {
            auto ready = member.runtime().record(member.stream());
            demand(ready.is_ok(), "record");
            set.ready = ready.value();
            --set.left;
            set.task = &set.communicator->start({.segments = {&set.segment, 1},
                                                 .ready = {&set.ready, 1},
                                                 .host = {.operation = Operation::allreduce,
                                                          .segments = {&set.segment, 1},
                                                          .locations = set.locations,
                                                          .splits = {}}});
        } else if (set.task != nullptr && set.task->step() == StepResult::done) {
            set.task = nullptr;
            demand(set.communicator->end()->make_wait(member.stream()).is_ok(), "the wait");
        } else {
            demand(set.communicator->failed().is_ok(), set.communicator->failed().message());
            std::this_thread::yield();
        }
    }
}

/// Makes the communicators of two sets of all members. `first` is the number (0 or 1) of the set whose offer this
/// member makes first.
std::vector<OwnSet> two_sets(Member& member, int first) {
    std::vector<OwnSet> sets(2);
    static std::vector<std::vector<DeviceCommunicator::Offer>> offers;
    if (member.number() == 0) {
        offers.assign(2, std::vector<DeviceCommunicator::Offer>(member.members()));
    }
    // The number `id` stands for the same communicator on all members.
    for (int id = 0; id < 2; ++id) {
        sets[static_cast<std::size_t>(id)].communicator = member.make_communicator(member.all_members(), id);
    }
    member.meet();
    for (const int id : {first, 1 - first}) {
        offers[static_cast<std::size_t>(id)][member.number()] =
            sets[static_cast<std::size_t>(id)].communicator->offer();
    }
    member.meet();
    for (std::size_t id = 0; id < 2; ++id) {
        demand(sets[id].communicator->connect(offers[id]).is_ok(), "connect");
        Member::wait_until_connected(*sets[id].communicator);
        sets[id].segment = tensor_of(member, DType::int64, 300, ReduceOp::max);
        sets[id].locations.resize(member.members());
    }
    member.meet();
    return sets;
}

TEST_CASE("process sets that connect in different orders agree, and never block each other", "[gpu][staged]") {
    for (std::uint64_t seed = 50; seed < 56; ++seed) {
        const bool is_one_order = seed % 2 == 0;
        run_members(
            3, 3, seed,
            [seed, is_one_order](Member& member) {
                auto sets = two_sets(member, is_one_order || member.number() == 0 ? 0 : 1);
                std::mt19937_64 random(seed * 10 + member.number());
                for (OwnSet& set : sets) {
                    // There are only few batches, so the members do not exchange their offers a second time.
                    set.left = Member::kOrderInterval - 1;
                }
                run_in_own_order(member, sets, random);
                for (const OwnSet& set : sets) {
                    demand_all(member, set.segment, 3);
                }
                demand(gpu::nccl_operations().size() == (is_one_order ? 9U : 0U),
                       "NCCL did " + std::to_string(gpu::nccl_operations().size()) + " operations");
                if (member.number() == 0) {
                    demand(member.warnings().size() == (is_one_order ? 1U : 2U), "another number of warnings");
                    demand(says(member.warnings().back(), "whose operations have no order"), member.warnings().back());
                }
                member.meet();
            },
            nullptr, /*piece_bytes=*/1000);
    }
}

TEST_CASE("process sets that kept each other from NCCL use it after the next offers", "[gpu][staged]") {
    for (std::uint64_t seed = 70; seed < 74; ++seed) {
        run_members(3, 3, seed, [seed](Member& member) {
            auto sets = two_sets(member, member.number() == 0 ? 0 : 1);
            std::mt19937_64 random(seed * 10 + member.number());
            for (OwnSet& set : sets) {
                set.left = 12;
            }
            run_in_own_order(member, sets, random);
            for (const OwnSet& set : sets) {
                demand_all(member, set.segment, 3);
            }
            // In their fourth batches, both sets exchange their offers again.
            const std::size_t operations = gpu::nccl_operations().size();
            demand(operations == std::size_t{2} * 3 * 9, "NCCL did " + std::to_string(operations) + " operations");
            member.meet();
        });
    }
}

TEST_CASE("a process set can use NCCL after the end of the one that used it", "[gpu][staged]") {
    run_members(2, 2, 57, [](Member& member) {
        for (int round = 0; round < 3; ++round) {
            const auto communicator = member.connect(member.all_members(), round);
            const Segment segment = tensor_of(member, DType::float32, 5);
            demand(member.run(*communicator, {.segments = {&segment, 1}}).is_ok(), "the batch");
            demand_all(member, segment, sum_of_numbers(member));
        }
        member.meet();
        demand(gpu::nccl_operations().size() == 6 && member.warnings().empty(), "NCCL was not used");
    });
}

// Failures.

TEST_CASE("a call of the driver that fails ends the member's batch with its name", "[gpu][staged]") {
    for (const std::string function :
         {"cuMemHostAlloc", "cuMemcpyAsync", "cuEventRecord", "cuStreamCreateWithPriority", "cuCtxPushCurrent"}) {
        std::atomic<int> failures{0};  // relaxed: only the number matters
        run_members(2, 1, 60, [&](Member& member) {
            member.set_path(DevicePath::host);
            member.keep_memory();
            const auto communicator = member.connect();
            const Segment segment = tensor_of(member, DType::float32, 3000);
            const auto ready = member.runtime().record(member.stream());
            demand(ready.is_ok(), "record");
            const std::vector<Location> locations(2);
            Task& task = communicator->start({.segments = {&segment, 1},
                                              .ready = {&ready.value(), 1},
                                              .host = {.operation = Operation::allreduce,
                                                       .segments = {&segment, 1},
                                                       .locations = locations,
                                                       .splits = {}}});
            member.meet();
            if (member.number() == 0) {
                gpu::settle();
                gpu::fail_call(function, 1, cuda::kCudaOutOfMemory);
            }
            member.meet();
            const Status status = Member::drive(*communicator, task, 300ms);
            demand(!status.is_ok(), "no failure");
            if (status.code() != ErrorCode::timeout) {
                failures.fetch_add(1, std::memory_order_relaxed);
                demand(says(status.message(), function) && says(status.message(), "GPU 0"), status.message());
            }
            member.meet();
        });
        INFO(function);
        CHECK(failures.load(std::memory_order_relaxed) == 1);
    }
}

TEST_CASE("the end of a communicator waits for its copies, but not for ever", "[gpu][staged]") {
    run_members(1, 1, 61, [](Member& member) {
        member.set_path(DevicePath::host);
        member.keep_memory();  // copies still read this memory when the member ends
        auto communicator = member.connect();
        const Segment segment = tensor_of(member, DType::float32, 3000);
        const auto ready = member.runtime().record(member.stream());
        demand(ready.is_ok(), "record");
        gpu::settle();
        const std::vector<Location> locations(1);
        Task& task = communicator->start(
            {.segments = {&segment, 1},
             .ready = {&ready.value(), 1},
             .host = {
                 .operation = Operation::allreduce, .segments = {&segment, 1}, .locations = locations, .splits = {}}});
        gpu::hold_device(0);
        static_cast<void>(Member::drive(*communicator, task, 50ms));
        const auto start = Clock::now();
        communicator->abort();
        communicator.reset();
        demand(Clock::now() - start < 1500ms, "the end took long");
        gpu::release_device(0);
    });
}

TEST_CASE("after an error of the device, the end of a communicator does not wait", "[gpu][staged]") {
    run_members(1, 1, 64, [](Member& member) {
        member.set_path(DevicePath::host);
        member.keep_memory();
        auto communicator = member.connect();
        const std::array segments{tensor_of(member, DType::float32, 3000)};
        const auto recorded = member.runtime().record(member.stream());
        demand(recorded.is_ok(), "record");
        gpu::settle();
        const std::vector<DeviceEventPtr> ready(1, recorded.value());
        const std::vector<Location> locations(1);
        Task& task = start_allreduce(*communicator, segments, ready, locations);
        gpu::hold_device(0);
        static_cast<void>(Member::drive(*communicator, task, 50ms));
        gpu::break_device(0, cuda::kCudaIllegalAddress);
        const auto start = Clock::now();
        communicator->abort();
        communicator.reset();
        demand(Clock::now() - start < 500ms, "the end waited");
        gpu::release_device(0);
    });
}

}  // namespace
}  // namespace rueda::tests
