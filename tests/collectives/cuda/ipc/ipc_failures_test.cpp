// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The Rueda authors
// Tests under which conditions the members use CUDA IPC, and what happens if a member cannot use it or dies. Also tests
// that planted defects are found.
#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <catch2/catch.hpp>
#include <chrono>
#include <csignal>
#include <cstring>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <thread>
#include <vector>

#include "collectives/cuda/ipc/ipc_record.hpp"
#include "tests/collectives/cuda/ipc/ipc_members.hpp"
#include "tests/support/gpu_stand_in/control.hpp"

namespace rueda::tests {
namespace {

using Clock = std::chrono::steady_clock;

constexpr cuda::IpcSizes kSizes{.slot = 4096, .least_batch = 256};
constexpr std::size_t kMemory = 3 * kSizes.slot;  ///< bytes that a member shares: two slots, and scratch memory of one
                                                  ///< slot

bool says(const std::string& text, const std::string& part) { return text.find(part) != std::string::npos; }

/// A sum of `count` floats, in place. The input of each member is its number + 1.
struct Sum {
    Sum(IpcMember& member, std::size_t count) : values(count, static_cast<float>(member.number() + 1)) {
        memory = member.put(std::as_bytes(std::span(values)));
        segment = {.count = count, .input = memory, .output = memory};
    }
    void check(IpcMember& member) {
        const std::vector<std::byte> found = member.get(memory, segment.bytes());
        std::memcpy(values.data(), found.data(), found.size());
        const auto members = static_cast<float>(member.members());
        RUEDA_RANK_EQUAL(values, std::vector<float>(values.size(), members * (members + 1) / 2));
    }
    std::vector<float> values;
    std::byte* memory = nullptr;
    Segment segment;
};

void run_sum(IpcMember& member, DeviceCommunicator& communicator, std::size_t count) {
    Sum sum(member, count);
    member.run(communicator, Operation::allreduce, {&sum.segment, 1});
    sum.check(member);
}

/// Returns the number of members for which `is_true` is true. The members compute this number by an allreduce, which is
/// so small that it is staged (moves through the host's memory).
float count_members(IpcMember& member, DeviceCommunicator& communicator, bool is_true) {
    float count = is_true ? 1 : 0;
    std::byte* const memory = member.put(std::as_bytes(std::span(&count, 1)));
    const Segment segment{.count = 1, .input = memory, .output = memory};
    member.run(communicator, Operation::allreduce, {&segment, 1});
    std::memcpy(&count, member.get(memory, sizeof(count)).data(), sizeof(count));
    return count;
}

// The original functions of the driver, which the planted defects below call. Each process of a test has its own copy
// of this table.
cuda::CudaApi real;

cuda::CudaResult refuse_memory(cuda::DeviceAddress* address, std::size_t bytes) {
    return bytes == kMemory ? cuda::kCudaOutOfMemory : real.memory_allocate(address, bytes);
}

void plant_no_memory(int member, cuda::CudaApi& api) {
    real = api;
    if (member == 1) {
        api.memory_allocate = refuse_memory;
    }
}
void plant_no_handle(int member, cuda::CudaApi& api) {
    if (member == 2) {
        api.ipc_get_memory_handle = [](cuda::CudaIpcMemory*, cuda::DeviceAddress) { return cuda::kCudaNotSupported; };
    }
}
void plant_no_opening(int member, cuda::CudaApi& api) {
    if (member == 0) {
        api.ipc_open_memory_handle = [](cuda::DeviceAddress*, cuda::CudaIpcMemory, unsigned) {
            return cuda::kCudaPeerAccessUnsupported;
        };
    }
}

/// The facts that the planted defects collect about the streams of this process.
struct Streams {
    std::map<cuda::CudaEvent, cuda::CudaStream> of_event;
    std::set<cuda::CudaStream> with_kernels;  ///< streams that have kernels; in these tests, only the stream of CUDA
                                              ///< IPC
    std::set<cuda::CudaFunction> reductions;
    cuda::CudaStream other = nullptr;
    bool lies = true;
};
Streams streams;

cuda::CudaResult note_launch(cuda::CudaFunction function, unsigned x, unsigned y, unsigned z, unsigned block_x,
                             unsigned block_y, unsigned block_z, unsigned shared, cuda::CudaStream stream,
                             void** arguments, void** extra) {
    streams.with_kernels.insert(stream);
    return real.launch_kernel(function, x, y, z, block_x, block_y, block_z, shared, stream, arguments, extra);
}
cuda::CudaResult note_record(cuda::CudaEvent event, cuda::CudaStream stream) {
    streams.of_event[event] = stream;
    return real.event_record(event, stream);
}
/// Reports that an event in the stream of CUDA IPC is reached. Does not ask the driver whether this is true.
cuda::CudaResult lie_about_kernels(cuda::CudaEvent event) {
    const bool is_kernel = streams.with_kernels.count(streams.of_event[event]) > 0;
    return streams.lies && is_kernel ? cuda::kCudaSuccess : real.event_query(event);
}
void plant_no_wait(int /*member*/, cuda::CudaApi& api) {
    real = api;
    api.launch_kernel = note_launch;
    api.event_record = note_record;
    api.event_query = lie_about_kernels;
}
void plant_no_wait_at_end(int member, cuda::CudaApi& api) {
    plant_no_wait(member, api);
    streams.lies = false;
}

cuda::CudaResult note_reductions(cuda::CudaFunction* function, cuda::CudaModule module, const char* name) {
    const cuda::CudaResult result = real.module_get_function(function, module, name);
    if (result == cuda::kCudaSuccess && std::string_view(name).starts_with("rueda_reduce")) {
        streams.reductions.insert(*function);
    }
    return result;
}
/// Puts reductions into another stream, so that the event at the end of a round does not wait for them.
cuda::CudaResult launch_elsewhere(cuda::CudaFunction function, unsigned x, unsigned y, unsigned z, unsigned block_x,
                                  unsigned block_y, unsigned block_z, unsigned shared, cuda::CudaStream stream,
                                  void** arguments, void** extra) {
    if (streams.reductions.count(function) > 0) {
        if (streams.other == nullptr) {
            static_cast<void>(real.stream_create_with_priority(&streams.other, cuda::kStreamNonBlocking, 0));
        }
        stream = streams.other;
    }
    return real.launch_kernel(function, x, y, z, block_x, block_y, block_z, shared, stream, arguments, extra);
}
void plant_no_wait_for_reads(int /*member*/, cuda::CudaApi& api) {
    real = api;
    api.module_get_function = note_reductions;
    api.launch_kernel = launch_elsewhere;
}

}  // namespace

TEST_CASE("small batches are staged, and take no device memory", "[ipc][choice]") {
    require_ipc({.seed = 1, .sizes = kSizes}, [](IpcMember& member) {
        const auto communicator = member.connect();
        const std::size_t before = gpu::allocated_bytes();
        run_sum(member, *communicator, 63);
        RUEDA_RANK_EQUAL(gpu::allocated_bytes() - before, 63 * sizeof(float) + 1);
        run_sum(member, *communicator, 64);
        RUEDA_RANK_EQUAL(gpu::allocated_bytes() - before, 127 * sizeof(float) + 2 + kMemory);
        if (member.number() == 0) {
            RUEDA_RANK_CHECK(std::any_of(member.lines().begin(), member.lines().end(), [](const std::string& line) {
                return says(line,
                            "process set 0 moves batches of 256 bytes and more on GPUs through GPU memory that "
                            "the ranks share (CUDA IPC), and smaller ones through the host's memory: NCCL 2.28.9 "
                            "cannot connect ranks 0 (its GPU 0) and 1 (its GPU 0), which share the device");
            }));
        }
        member.meet();
    });
}

TEST_CASE("with NCCL or with RUEDA_GPU_PATH=host nothing is shared", "[ipc][choice]") {
    for (const DevicePath path : {DevicePath::automatic, DevicePath::host}) {
        require_ipc({.devices = 2, .seed = 2, .path = path, .sizes = kSizes}, [path](IpcMember& member) {
            const auto communicator = member.connect();
            while (!communicator->is_connected().value()) {
                std::this_thread::yield();
            }
            run_sum(member, *communicator, 3000);
            RUEDA_RANK_EQUAL(gpu::calls("cuIpcGetMemHandle"), 0U);
            RUEDA_RANK_EQUAL(gpu::nccl_operations().empty(), path == DevicePath::host);
            member.meet();
        });
    }
}

TEST_CASE("Adasum is staged", "[ipc][choice]") {
    require_ipc({.seed = 3, .sizes = kSizes}, [](IpcMember& member) {
        const auto communicator = member.connect();
        Sum adasum(member, 500);
        adasum.segment.reduce_op = ReduceOp::adasum;
        member.run(*communicator, Operation::allreduce, {&adasum.segment, 1});
        RUEDA_RANK_EQUAL(gpu::calls("cuIpcGetMemHandle"), 0U);
        member.meet();
    });
}

TEST_CASE("if one member cannot share memory, all use the host's memory and say why", "[ipc][choice]") {
    struct Reason {
        std::function<void(int, cuda::CudaApi&)> plant;
        std::string text;
    };
    const Reason reasons[] = {{plant_no_memory, "rank 1: cuMemAlloc"},
                              {plant_no_handle, "rank 2: cuIpcGetMemHandle"},
                              {plant_no_opening, "rank 0: cuIpcOpenMemHandle"}};
    for (const Reason& reason : reasons) {
        require_ipc({.members = 3, .seed = 4, .sizes = kSizes, .plant = reason.plant}, [&reason](IpcMember& member) {
            const auto communicator = member.connect();
            for (int batch = 0; batch < 3; ++batch) {
                run_sum(member, *communicator, 3000);
            }
            const auto lines =
                std::count_if(member.lines().begin(), member.lines().end(), [&](const std::string& line) {
                    return says(line,
                                "process set 0 moves all tensors on GPUs through the host's memory, because the "
                                "ranks cannot share GPU memory (CUDA IPC): " +
                                    reason.text);
                });
            if (lines != (member.number() == 0 ? 1 : 0)) {
                throw RankCheckFailed(fmt::format("{}", fmt::join(member.lines(), "\n")));
            }
            RUEDA_RANK_CHECK(gpu::calls("cuIpcGetMemHandle") <= 1);
            RUEDA_RANK_EQUAL(gpu::calls("cuIpcOpenMemHandle"), gpu::calls("cuIpcCloseMemHandle"));
            member.meet();
        });
    }
}

TEST_CASE("the memory of sets that have ended is used again", "[ipc][choice]") {
    require_ipc({.members = 3, .seed = 5, .sizes = kSizes}, [](IpcMember& member) {
        for (int set = 0; set < 7; ++set) {
            const auto communicator = member.connect();
            run_sum(member, *communicator, 3000);
        }
        // A set can reuse the memory of an ended set, but only after it has learned that all members have closed this
        // memory. The second set has not learned this yet, so it gets new memory. The third set and the later ones use
        // the memory of ended sets.
        RUEDA_RANK_EQUAL(gpu::calls("cuIpcGetMemHandle"), 2U);
        RUEDA_RANK_EQUAL(gpu::calls("cuIpcOpenMemHandle"), 7U * 2);
        member.meet();
    });
}

/// Runs one allreduce of `count` elements with a planted defect, and checks that the stand-in finds a race.
void check_race(std::uint64_t seed, void (*plant)(int member, cuda::CudaApi& api), std::size_t count) {
    const RanksResult result = run_ipc({.seed = seed, .sizes = kSizes, .plant = plant}, [count](IpcMember& member) {
        const auto communicator = member.connect();
        const Sum sum(member, count);
        member.run(*communicator, Operation::allreduce, {&sum.segment, 1});
        member.meet();
        gpu::settle();
        member.meet();
    });
    INFO(result.text());
    CHECK(says(violations_of(result), "Race"));
}

TEST_CASE("planted: the members do not wait until the slots are filled", "[ipc][planted]") {
    check_race(6, plant_no_wait, 900);  // one piece
}

TEST_CASE("planted: a slot is filled again before the other members have read it", "[ipc][planted]") {
    check_race(7, plant_no_wait_for_reads, 9000);  // nine pieces
}

TEST_CASE("planted: memory is closed before the kernels that read it have ended", "[ipc][planted]") {
    const RanksResult result =
        run_ipc({.seed = 8, .sizes = kSizes, .plant = plant_no_wait_at_end}, [](IpcMember& member) {
            auto communicator = member.connect();
            const Sum sum(member, 900);
            gpu::delay_operations("rueda_reduce", std::chrono::milliseconds(20));
            member.run(*communicator, Operation::allreduce, {&sum.segment, 1});
            streams.lies = true;
            communicator = nullptr;
            member.meet();
        });
    INFO(result.text());
    CHECK(says(violations_of(result), "is unmapped, but the host program does not know that"));
}

TEST_CASE("the end of a batch covers earlier batches of the other way", "[ipc][choice]") {
    for (const bool is_large_first : {false, true}) {
        require_ipc({.seed = 12, .sizes = kSizes}, [is_large_first](IpcMember& member) {
            const auto communicator = member.connect();
            run_sum(member, *communicator, 3000);
            gpu::delay_operations(is_large_first ? "rueda_reduce" : "cuMemcpyAsync", std::chrono::milliseconds(20));
            Sum first(member, is_large_first ? 900 : 20);
            Sum second(member, is_large_first ? 20 : 900);
            for (const Sum* one : {&first, &second}) {
                Task& task = member.start(*communicator, Operation::allreduce, {&one->segment, 1});
                while (task.step() != StepResult::done) {
                    RUEDA_RANK_CHECK(communicator->failed().is_ok());
                    std::this_thread::yield();
                }
            }
            // The program waits only for the end of the last batch, as it does for a group of tensors. This wait must
            // also cover the first batch.
            RUEDA_RANK_CHECK(communicator->end()->make_wait(member.stream()).is_ok());
            first.check(member);
            second.check(member);
            member.meet();
        });
    }
}

TEST_CASE("the time of a batch is from the first kernel to the last, and a staged batch has none", "[ipc][choice]") {
    require_ipc({.seed = 15, .sizes = kSizes}, [](IpcMember& member) {
        const auto communicator = member.connect();
        run_sum(member, *communicator, 3000);
        RUEDA_RANK_CHECK(!communicator->end()->times().has_value());  // nobody wanted it
        communicator->measure(true);
        gpu::delay_operations("rueda_reduce", std::chrono::milliseconds(20));
        std::optional<DeviceEvent::Times> times;
        const auto limit = Clock::now() + std::chrono::seconds(20);
        bool is_over = false;
        do {  // on a busy machine, some tries to measure the device's clock fail
            run_sum(member, *communicator, 3000);
            const auto done = communicator->end()->is_done();
            RUEDA_RANK_CHECK(done.is_ok() && done.value());
            times = times ? times : communicator->end()->times();
            is_over = Clock::now() >= limit;
        } while (count_members(member, *communicator, times || is_over) < static_cast<float>(member.members()));
        RUEDA_RANK_CHECK(!communicator->end()->times().has_value());
        RUEDA_RANK_CHECK(times.has_value());
        // 12,000 bytes are three pieces, so the device runs three slow kernels. The measured time may be wrong by a few
        // microseconds.
        RUEDA_RANK_CHECK(times->end_ns - times->begin_ns >= 59'000'000);
        member.meet();
    });
}

TEST_CASE("a set that shares memory uses NCCL as soon as another set has an order", "[ipc][choice]") {
    require_ipc({.devices = 2, .seed = 13, .sizes = kSizes}, [](IpcMember& member) {
        const auto first = member.connect(1);
        while (!first->is_connected().value()) {
            std::this_thread::yield();
        }
        run_sum(member, *first, 100);
        // The first set uses NCCL without a launch order. Until the first set has a launch order, the second set cannot
        // use NCCL, and shares memory instead.
        const auto second = member.connect(2);
        for (std::uint32_t batch = 1; batch < IpcMember::kOrderInterval; ++batch) {
            run_sum(member, *second, 3000);
        }
        RUEDA_RANK_EQUAL(gpu::calls("cuIpcOpenMemHandle"), 1U);
        RUEDA_RANK_EQUAL(gpu::nccl_operations().size(), 1U);
        for (std::uint32_t batch = 1; batch < IpcMember::kOrderInterval; ++batch) {
            run_sum(member, *first, 100);  // the first set gets a launch order in the last batch of this loop
        }
        const std::size_t before = gpu::nccl_operations().size();
        for (const std::size_t count : {3000U, 20U, 3000U}) {
            run_sum(member, *second, count);
            run_sum(member, *first, count);
        }
        RUEDA_RANK_CHECK(gpu::nccl_operations().size() >= before + 6);
        RUEDA_RANK_EQUAL(gpu::calls("cuIpcOpenMemHandle"), 1U);
        member.meet();
    });
}

TEST_CASE("the end of a communicator waits for its kernels", "[ipc][choice]") {
    require_ipc({.seed = 10, .sizes = kSizes}, [](IpcMember& member) {
        auto communicator = member.connect();
        Sum sum(member, 900);
        gpu::delay_operations("rueda_reduce", std::chrono::milliseconds(20));
        member.run(*communicator, Operation::allreduce, {&sum.segment, 1});
        communicator = nullptr;
        sum.check(member);
        member.meet();
    });
}

TEST_CASE("a member that dies leaves no work behind that waits", "[ipc][death]") {
    for (const int steps : {0, 6, 9, 12, 20}) {
        CAPTURE(steps);
        const RanksResult result = run_ipc({.seed = 9, .sizes = kSizes}, [steps](IpcMember& member) {
            auto communicator = member.connect();
            run_sum(member, *communicator, 3000);
            const Sum sum(member, 9000);
            Task& task = member.start(*communicator, Operation::allreduce, {&sum.segment, 1});
            for (int i = 0; member.number() == 1 && i < steps; ++i) {
                static_cast<void>(task.step());
            }
            if (member.number() == 1) {
                static_cast<void>(std::raise(SIGKILL));
            }
            const auto end = Clock::now() + std::chrono::milliseconds(300);
            while (Clock::now() < end) {
                RUEDA_RANK_CHECK(task.step() != StepResult::done);
                RUEDA_RANK_CHECK(communicator->failed().is_ok());
            }
            const auto begin = Clock::now();
            communicator->abort();
            communicator = nullptr;
            const std::chrono::duration<double> took = Clock::now() - begin;
            member.context().report("seconds", took.count());
            gpu::settle();
            RUEDA_RANK_EQUAL(gpu::outstanding(), 0U);
            RUEDA_RANK_EQUAL(gpu::violations(), std::vector<std::string>());
            // The device still works.
            const std::vector<std::byte> bytes(100, std::byte{7});
            RUEDA_RANK_CHECK(member.get(member.put(bytes), bytes.size()) == bytes);
            // this exception skips the calls of meet() at the end, because they would wait for rank 1, which is dead
            throw RankCheckFailed("survived");
        });
        INFO(result.text());
        CHECK(result.ranks[1].end == RankEnd::killed);
        CHECK(says(result.ranks[0].text, "survived"));
        CHECK(std::stod(result.ranks[0].value("seconds")) < 5);  // the limit is high, because a busy machine may stop
                                                                 // any thread for a second
    }
}

TEST_CASE("records of other processes are checked", "[ipc][records]") {
    cuda::IpcRecord record{.member = 3, .round = 1, .process = 7, .slot_bytes = 4096, .token = 9};
    record.handle.reserved[63] = 'x';
    record.closed[5] = 11;
    record.refusal = std::string(1000, 'r');
    cuda::IpcRecordBytes bytes = cuda::write_ipc_record(record);
    const auto read = cuda::read_ipc_record(bytes, 3, 1);
    REQUIRE(read.is_ok());
    CHECK(read.value().process == 7);
    CHECK(read.value().slot_bytes == 4096);
    CHECK(read.value().token == 9);
    CHECK(read.value().handle.reserved[63] == 'x');
    CHECK(read.value().closed == record.closed);
    CHECK(read.value().refusal == std::string(cuda::kMostIpcRefusal, 'r'));
    CHECK(cuda::read_ipc_record(bytes, 2, 1).status().code() == ErrorCode::internal);
    CHECK(cuda::read_ipc_record(bytes, 3, 0).status().code() == ErrorCode::internal);
    bytes[14] = std::byte{0xff};  // the length of the text
    CHECK(cuda::read_ipc_record(bytes, 3, 1).status().code() == ErrorCode::internal);
    bytes.fill({});
    CHECK(cuda::read_ipc_record(bytes, 0, 0).status().code() == ErrorCode::internal);
}

}  // namespace rueda::tests
