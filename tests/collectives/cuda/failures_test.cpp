// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The Rueda authors
// Tests failures of the CUDA plugin, on the stand-in: missing members, errors of NCCL and of the driver, refusals, and
// defects that a test plants into the tables of functions.
#include <algorithm>
#include <atomic>
#include <catch2/catch.hpp>
#include <chrono>
#include <cstring>
#include <stdexcept>
#include <string>
#include <thread>
#include <vector>

#include "tests/collectives/cuda/elements.hpp"
#include "tests/collectives/cuda/members.hpp"
#include "tests/collectives/cuda/watched_host.hpp"
#include "tests/support/gpu_kernels.hpp"
#include "tests/support/gpu_stand_in/control.hpp"

namespace rueda::tests {
namespace {

using namespace std::chrono_literals;
using Clock = std::chrono::steady_clock;

void expect(bool is_true, const std::string& what) {
    if (!is_true) {
        throw std::runtime_error(what);
    }
}
bool has(const Status& status, const std::string& part) { return status.message().find(part) != std::string::npos; }

/// A tensor of 1000 float32 elements, and memory for the result. Each element is the member's number + 1.
Segment ones(Member& member) {
    const std::vector<double> values(1000, member.number() + 1.0);
    return {.count = values.size(),
            .input = member.put(encode(DType::float32, values)),
            .output = member.garbage(4 * values.size())};
}

void require_sum(Member& member, const Segment& segment) {
    const double sum = member.members() * (member.members() + 1) / 2.0;
    for (const double found : decode(segment.dtype, member.get(segment.output, segment.bytes()))) {
        expect(found == sum, "the sum is " + std::to_string(found));
    }
}

/// Members 0 and 1 launch work that waits for member 2. Then all members abort their communicators.
void abort_without_a_member(Member& member) {
    auto communicator = member.connect();
    auto second = member.connect();
    if (member.number() != 2) {
        const Segment segment = ones(member);
        const Segment other = ones(member);
        expect(member.run(*communicator, {.segments = {&segment, 1}}).is_ok(), "the launch");
        expect(member.run(*second, {.segments = {&other, 1}}).is_ok(), "the second launch");
        const DeviceEventPtr end = communicator->end();
        std::this_thread::sleep_for(20ms);  // the work must not end, however long the test waits
        const auto done = end->is_done();
        expect(done.is_ok() && !done.value(), "the work ended without a member");
    }
    member.meet();
    const auto start = Clock::now();
    communicator->abort();
    second->abort();
    communicator.reset();
    second.reset();
    const auto took = Clock::now() - start;
    member.meet();  // meet() comes before the checks, because a member whose check fails would keep the others waiting
    expect(took < 1s, "the abort took long");
    expect(gpu::live_communicators() == 0, "a communicator is left");
}

TEST_CASE("an abort ends the work that waits for a missing member", "[gpu]") {
    run_members(3, 3, 21, abort_without_a_member);
}

TEST_CASE("members that launch in different orders deadlock, and aborts end all of their work", "[gpu]") {
    run_members(2, 2, 20, [](Member& member) {
        auto one = member.connect();
        auto other = member.connect();
        const Segment segment = ones(member);
        const Segment second = ones(member);
        DeviceCommunicator& first_to_launch = member.number() == 0 ? *one : *other;
        DeviceCommunicator& last_to_launch = member.number() == 0 ? *other : *one;
        expect(member.run(first_to_launch, {.segments = {&segment, 1}}).is_ok(), "the launch");
        expect(member.run(last_to_launch, {.segments = {&second, 1}}).is_ok(), "the second launch");
        std::this_thread::sleep_for(20ms);  // the work must not end, however long the test waits
        for (DeviceCommunicator* const communicator : {one.get(), other.get()}) {
            const auto done = communicator->end()->is_done();
            expect(done.is_ok() && !done.value(), "the device has no queue");
        }
        member.meet();
        const auto start = Clock::now();
        one->abort();
        other->abort();
        one.reset();
        other.reset();
        expect(Clock::now() - start < 1s, "the abort took long");
    });
}

TEST_CASE("an abort ends members that wait for a connection", "[gpu]") {
    run_members(3, 3, 22, [](Member& member) {
        std::unique_ptr<DeviceCommunicator> communicator;
        communicator = member.make_communicator(member.all_members());
        static std::vector<DeviceCommunicator::Offer> offers(3);
        offers[member.number()] = communicator->offer();
        member.meet();
        if (member.number() != 2) {
            expect(communicator->connect(offers).is_ok(), "connect");
            for (int i = 0; i < 100; ++i) {
                const auto connected = communicator->is_connected();
                expect(connected.is_ok() && !connected.value(), "connected without a member");
            }
        }
        communicator->abort();
        communicator.reset();
        member.meet();
        expect(gpu::live_communicators() == 0, "a communicator is left");
    });
}

/// A function of NCCL that takes long, for example because a name server does not answer.
cuda::NcclResult slow_unique_id(cuda::NcclUniqueId* id) {
    static const cuda::NcclApi real = tables_of_stand_in().nccl;
    std::this_thread::sleep_for(300ms);
    return real.get_unique_id(id);
}

TEST_CASE("a slow ncclGetUniqueId does not delay the thread that makes the offer", "[gpu]") {
    GpuTables tables = tables_of_stand_in();
    tables.nccl.get_unique_id = slow_unique_id;
    const auto complaints = complaints_of_members(
        2, 2, 33,
        [](Member& member) {
            for (int set = 0; set < 2; ++set) {
                if (member.number() == 0) {
                    member.runtime().prepare_nccl_id();  // in a real job, the program's thread calls this function
                }
                member.meet();
                const auto start = Clock::now();
                const std::unique_ptr<DeviceCommunicator> communicator = member.connect();
                expect(Clock::now() - start < 250ms, "the connection took long");
                const Segment segment = ones(member);
                expect(member.run(*communicator, {.segments = {&segment, 1}}).is_ok(), "the launch");
                require_sum(member, segment);
                member.meet();
                expect(gpu::calls("ncclGetUniqueId") == static_cast<std::size_t>(set) + 1,
                       "another number of identifiers");
                member.meet();
            }
        },
        tables);
    CAPTURE(complaints);
    CHECK(complaints.empty());
}

TEST_CASE("an asynchronous error of NCCL becomes an abort with NCCL's text", "[gpu]") {
    std::atomic<int> failed{0};  // relaxed: only the number matters
    run_members(3, 3, 23, [&failed](Member& member) {
        auto communicator = member.connect({1, 2});
        const Segment segment = ones(member);
        member.meet();
        if (member.number() == 0) {
            gpu::fail_operation(1, cuda::kNcclRemoteError);
        }
        member.meet();
        if (communicator == nullptr) {
            return;
        }
        // the memory is not freed, because an aborted operation may still use it when the member ends
        member.keep_memory();
        static_cast<void>(member.run(*communicator, {.segments = {&segment, 1}}));
        const auto end = Clock::now() + 10s;
        while (communicator->failed().is_ok() && failed.load(std::memory_order_relaxed) == 0) {
            expect(Clock::now() < end, "no member has seen the error");
            std::this_thread::yield();
        }
        if (const Status status = communicator->failed(); !status.is_ok()) {
            failed.fetch_add(1, std::memory_order_relaxed);
            expect(status.code() == ErrorCode::aborted, "another error");
            expect(has(status, "ncclRemoteError (6): remote process exited"), status.message());
            const std::string number = std::to_string(member.number());
            expect(has(status, "failed on rank " + number + " (its GPU " + number + "): "), status.message());
        }
        communicator->abort();
    });
    CHECK(failed.load(std::memory_order_relaxed) == 1);
}

TEST_CASE("a version of NCCL with known bugs is a warning, once for each process", "[gpu]") {
    const auto expect_warnings = [](int version, const std::vector<std::string>& expected) {
        GpuTables tables = tables_of_stand_in();
        tables.nccl_version = version;
        const auto complaints = complaints_of_members(
            2, 2, 34,
            [&](Member& member) {
                member.runtime().open_nccl();
                const auto communicator = member.connect();
                const auto second = member.connect();
                member.runtime().open_nccl();
                expect(member.warnings() == expected, "other warnings than expected");
                member.meet();
            },
            tables);
        CAPTURE(version, complaints);
        CHECK(complaints.empty());
    };
    expect_warnings(
        21805, {"NCCL 2.18.5 has a known bug: an abort from a second thread can hang, so that a job may end "
                "slowly after a rank dies (github.com/NVIDIA/nccl/issues/992); a newer version of NCCL avoids it"});
    expect_warnings(21903, {"NCCL 2.19.3 has a known bug: an alltoall can hang; set NCCL_CUMEM_ENABLE=0 "
                            "(github.com/NVIDIA/nccl/issues/1116); a newer version of NCCL avoids it"});
    expect_warnings(22003, {});
}

TEST_CASE("a call of NCCL that fails has its name in the error", "[gpu]") {
    for (const std::string function : {"ncclAllReduce", "ncclGroupEnd", "ncclGroupStart", "ncclCommGetAsyncError"}) {
        run_members(1, 1, 24, [&](Member& member) {
            auto communicator = member.connect();
            const Segment segment = ones(member);
            member.keep_memory();
            gpu::fail_call(function, 1, cuda::kNcclSystemError);
            const Status status = member.run(*communicator, {.segments = {&segment, 1}});
            expect(status.code() == ErrorCode::aborted && has(status, function + " failed on rank 0 (its GPU 0)"),
                   status.message());
            communicator->abort();
        });
    }
}

TEST_CASE("a call of the driver that fails has its name in the error", "[gpu]") {
    for (const std::string function : {"cuStreamWaitEvent", "cuEventRecord"}) {
        run_members(1, 1, 25, [&](Member& member) {
            auto communicator = member.connect();
            const Segment segment = ones(member);
            const auto ready = member.runtime().record(member.stream());
            expect(ready.is_ok(), "record");
            const DeviceEventPtr event = ready.value();
            member.keep_memory();
            gpu::fail_call(function, 1, cuda::kCudaInvalidHandle);
            const Status status =
                Member::drive(*communicator, communicator->start({.segments = {&segment, 1}, .ready = {&event, 1}}));
            expect(has(status, function + " failed on GPU 0: "), status.message());
            communicator->abort();
        });
    }
}

TEST_CASE("with RUEDA_GPU_PATH=nccl, members without NCCL and on one device are refused alike", "[gpu]") {
    const auto refused = [](const GpuTables& tables, int devices, const std::string& expected) {
        return complaints_of_members(
            2, devices, 26,
            [&](Member& member) {
                member.set_path(DevicePath::nccl);
                std::unique_ptr<DeviceCommunicator> communicator;
                const Status status = member.make(communicator);
                expect(status.code() == ErrorCode::unsupported && has(status, expected), status.message());
                const auto connected = communicator->is_connected();
                expect(connected.status().message() == status.message(), "another error");
            },
            tables);
    };
    GpuTables tables = tables_of_stand_in();
    CHECK(refused(tables, 1, "share the device GPU-").empty());
    CHECK(refused(tables, 1, "ranks 0 (its GPU 0) and 1 (its GPU 0)").empty());
    tables.nccl.get_unique_id = [](cuda::NcclUniqueId*) { return cuda::kNcclSystemError; };
    CHECK(refused(tables, 2, "rank 0: ncclGetUniqueId failed on rank 0 (its GPU 0): ncclSystemError").empty());
}

TEST_CASE("a stream that captures a graph is refused, and a query does not disturb the capture", "[gpu]") {
    run_members(1, 1, 27, [](Member& member) {
        const auto before = member.runtime().record(member.stream());
        expect(before.is_ok(), "record");
        auto* const stream = static_cast<cuda::CudaStream>(member.stream().stream);
        expect(gpu::begin_capture(stream, cuda::kCaptureModeGlobal) == cuda::kCudaSuccess, "begin_capture");
        std::thread([&] {
            const auto done = before.value()->is_done();
            expect(done.is_ok(), done.status().message());
        }).join();
        const auto refused = member.runtime().record(member.stream());
        expect(refused.status().code() == ErrorCode::unsupported, "no refusal");
        expect(has(refused.status(), "captures a CUDA graph"), refused.status().message());
        expect(gpu::end_capture(stream) == cuda::kCudaSuccess, "the capture was disturbed");
    });
}

TEST_CASE("a device that does not exist and a broken device have clear errors", "[gpu]") {
    run_members(1, 1, 28, [](Member& member) {
        const auto none = member.runtime().record({1, nullptr});
        expect(none.status().code() == ErrorCode::invalid_argument, "no refusal");
        expect(has(none.status(), "the tensor is on GPU 1, but this process sees 1 GPU"), none.status().message());
        gpu::break_device(0, cuda::kCudaIllegalAddress);
        const auto broken = member.runtime().record(member.stream());
        expect(broken.status().code() == ErrorCode::aborted, "no error");
        expect(has(broken.status(), "(700)"), broken.status().message());
    });
}

TEST_CASE("no context is created before a device is used", "[gpu]") {
    gpu::reset(1, 2);
    REQUIRE(cuda::initialise_cuda(tables_of_stand_in().cuda).is_ok());
    cuda::CudaDeviceRuntime runtime({.cuda = tables_of_stand_in().cuda, .load_nccl = [] {
                                         return Result<cuda::LoadedNccl>(failure(ErrorCode::unsupported, "no NCCL"));
                                     }});
    CHECK(gpu::contexts_created() == 0);
    CHECK_FALSE(runtime.record({2, nullptr}).is_ok());
    CHECK(gpu::contexts_created() == 0);
    CHECK(runtime.record({1, nullptr}).is_ok());
    CHECK(gpu::contexts_created() == 1);
    Meeting meeting(1);
    WatchedHost host(meeting.map_arena({0}, 0, 0));
    auto communicator = runtime.make_communicator({.device = 1, .path = DevicePath::nccl}, host);
    REQUIRE(communicator.is_ok());
    const auto offer = communicator.value()->offer();
    CHECK(has(communicator.value()->connect({&offer, 1}), "rank 0: no NCCL"));
}

TEST_CASE("events are used again", "[gpu]") {
    run_members(1, 1, 29, [](Member& member) {
        expect(member.runtime().record(member.stream()).is_ok(), "record");
        const std::size_t events = gpu::live_events();
        for (int i = 0; i < 100; ++i) {
            expect(member.runtime().record(member.stream()).is_ok(), "record");
        }
        expect(gpu::live_events() == events, "the pool has grown");
    });
}

// Planted defects. The plugin calls CUDA and NCCL through tables of functions. Each test replaces one of these
// functions, as if the plugin called it wrongly. In every test, the stand-in or a comparison of results must find the
// fault.

cuda::CudaApi real_cuda;
cuda::NcclApi real_nccl;
thread_local cuda::CudaStream program_stream = nullptr;

cuda::CudaResult no_wait(cuda::CudaStream /*stream*/, cuda::CudaEvent /*event*/, unsigned /*flags*/) {
    return cuda::kCudaSuccess;
}
cuda::CudaResult wait_only_in(bool program, cuda::CudaStream stream, cuda::CudaEvent event, unsigned flags) {
    return (stream == program_stream) == program ? real_cuda.stream_wait_event(stream, event, flags)
                                                 : cuda::kCudaSuccess;
}

cuda::CudaResult no_launch(cuda::CudaFunction /*function*/, unsigned /*x*/, unsigned /*y*/, unsigned /*z*/,
                           unsigned /*block_x*/, unsigned /*block_y*/, unsigned /*block_z*/, unsigned /*shared*/,
                           cuda::CudaStream /*stream*/, void** /*arguments*/, void** /*extra*/) {
    return cuda::kCudaSuccess;
}
cuda::CudaResult launch_in_program_stream(cuda::CudaFunction function, unsigned x, unsigned y, unsigned z,
                                          unsigned block_x, unsigned block_y, unsigned block_z, unsigned shared,
                                          cuda::CudaStream /*stream*/, void** arguments, void** extra) {
    return real_cuda.launch_kernel(function, x, y, z, block_x, block_y, block_z, shared, program_stream, arguments,
                                   extra);
}

/// Runs a few allreduces with the given tables of functions. Returns whether the stand-in or a comparison of results
/// finds a fault.
bool is_found(const GpuTables& tables, std::uint32_t joined = 99) {
    for (std::uint64_t seed = 1; seed <= 10; ++seed) {
        const auto complaints = complaints_of_members(
            2, 2, seed,
            [joined](Member& member) {
                program_stream = static_cast<cuda::CudaStream>(member.stream().stream);
                auto communicator = member.connect();
                std::vector<Segment> segments;
                for (int round = 0; round < 3; ++round) {
                    Segment segment = ones(member);
                    if (member.number() == joined) {
                        segment.input = segment.output = nullptr;
                    }
                    const Status status = member.run(*communicator, {.segments = {&segment, 1}});
                    expect(status.is_ok(), status.message());
                    segments.push_back(segment);
                }
                // The results are checked only after all members have launched everything. Otherwise, a member whose
                // check fails would keep the other members waiting.
                for (const Segment& segment : segments) {
                    if (joined == 99) {
                        require_sum(member, segment);
                    } else if (member.number() != joined) {
                        const auto found = decode(segment.dtype, member.get(segment.output, segment.bytes()));
                        expect(found[999] == member.number() + 1.0, "the sum is " + std::to_string(found[999]));
                    }
                }
            },
            tables);
        if (!complaints.empty()) {
            return true;
        }
    }
    return false;
}

TEST_CASE("planted defects are found", "[gpu]") {
    const GpuTables real = tables_of_stand_in();
    real_cuda = real.cuda;
    real_nccl = real.nccl;
    REQUIRE_FALSE(is_found(real));
    REQUIRE_FALSE(is_found(real, 1));
    GpuTables planted = real;

    SECTION("no wait for any event") { planted.cuda.stream_wait_event = no_wait; }
    SECTION("NCCL does not wait for the tensors") {
        planted.cuda.stream_wait_event = [](cuda::CudaStream stream, cuda::CudaEvent event, unsigned flags) {
            return wait_only_in(true, stream, event, flags);
        };
    }
    SECTION("the program does not wait for the end") {
        planted.cuda.stream_wait_event = [](cuda::CudaStream stream, cuda::CudaEvent event, unsigned flags) {
            return wait_only_in(false, stream, event, flags);
        };
    }
    SECTION("NCCL works in another stream than the one that waits") {
        planted.nccl.all_reduce = [](const void* input, void* output, std::size_t count, cuda::NcclType type,
                                     cuda::NcclReduction reduction, cuda::NcclCommunicator communicator,
                                     cuda::CudaStream) {
            thread_local cuda::CudaStream other = nullptr;
            static_cast<void>(real_cuda.stream_create_with_priority(&other, cuda::kStreamNonBlocking, 0));
            return real_nccl.all_reduce(input, output, count, type, reduction, communicator, other);
        };
    }
    SECTION("the end event is recorded while NCCL still launches") {
        planted.nccl.get_async_error = [](cuda::NcclCommunicator communicator, cuda::NcclResult* state) {
            const cuda::NcclResult result = real_nccl.get_async_error(communicator, state);
            *state = *state == cuda::kNcclInProgress ? cuda::kNcclSuccess : *state;
            return result;
        };
    }
    SECTION("the context of the device is not current") {
        planted.cuda.context_push = [](cuda::CudaContext context) {
            cuda::CudaContext current = nullptr;
            static_cast<void>(real_cuda.context_get_current(&current));
            // The plugin makes this call while a context is current, and only its calls get the defect. A call
            // without a current context comes from the test's program, and must work.
            return real_cuda.context_push(current == nullptr ? context : nullptr);
        };
    }
    SECTION("events are recorded in the legacy default stream") {
        planted.cuda.event_record = [](cuda::CudaEvent event, cuda::CudaStream) {
            return real_cuda.event_record(event, nullptr);
        };
    }
    SECTION("an allreduce adds one element too many") {
        planted.nccl.all_reduce = [](const void* input, void* output, std::size_t count, cuda::NcclType type,
                                     cuda::NcclReduction reduction, cuda::NcclCommunicator communicator,
                                     cuda::CudaStream stream) {
            return real_nccl.all_reduce(input, output, count + 1, type, reduction, communicator, stream);
        };
    }
    CHECK(is_found(planted));
}

TEST_CASE("an abort that does nothing is found", "[gpu]") {
    GpuTables planted = tables_of_stand_in();
    planted.nccl.abort = [](cuda::NcclCommunicator) { return cuda::kNcclSuccess; };
    const auto complaints = complaints_of_members(
        2, 2, 30,
        [](Member& member) {
            auto communicator = member.connect();
            communicator->abort();
            communicator.reset();
            member.meet();
            expect(gpu::live_communicators() == 0, "a communicator is left");
        },
        planted);
    CHECK(complaints.size() == 2);
}

/// All aborts begin 1.3 s after the first call. This is too late: abort_without_a_member() expects aborts that take
/// less than a second.
cuda::NcclResult late_abort(cuda::NcclCommunicator communicator) {
    static const Clock::time_point begin = Clock::now() + 1300ms;
    std::this_thread::sleep_until(begin);
    return real_nccl.abort(communicator);
}

TEST_CASE("an abort that comes too late is found", "[gpu]") {
    GpuTables planted = tables_of_stand_in();
    real_nccl = planted.nccl;
    planted.nccl.abort = late_abort;
    const auto complaints = complaints_of_members(
        3, 3, 31,
        [](Member& member) {
            member.keep_memory();  // the work still uses the memory when the member ends
            abort_without_a_member(member);
        },
        planted);
    for (std::uint32_t number = 0; number < 3; ++number) {
        const std::string expected = "member " + std::to_string(number) + ": the abort took long";
        CAPTURE(complaints, expected);
        CHECK(std::find(complaints.begin(), complaints.end(), expected) != complaints.end());
    }
    // The late aborts must not disturb the next test.
    while (gpu::outstanding() != 0 || gpu::live_communicators() != 0) {
        std::this_thread::yield();
    }
}

TEST_CASE("a planted defect in the scratch memory of joined members is found", "[gpu]") {
    GpuTables planted = tables_of_stand_in();
    real_cuda = planted.cuda;
    // In this test, kernels are used only for rueda_fill, which writes the neutral elements of joined members.
    GpuTables with_kernels = planted;
    with_kernels.kernels = gpu::kKernelImage;
    REQUIRE_FALSE(is_found(with_kernels, 1));
    REQUIRE(gpu::calls("cuLaunchKernel") > 0);
    SECTION("neutral elements are not written") {
        planted.cuda.copy_async = [](cuda::DeviceAddress to, cuda::DeviceAddress from, std::size_t bytes,
                                     cuda::CudaStream stream) {
            return stream == program_stream ? real_cuda.copy_async(to, from, bytes, stream) : cuda::kCudaSuccess;
        };
    }
    SECTION("neutral elements are written in another stream") {
        planted.cuda.copy_async = [](cuda::DeviceAddress to, cuda::DeviceAddress from, std::size_t bytes,
                                     cuda::CudaStream) {
            return real_cuda.copy_async(to, from, bytes, program_stream);
        };
    }
    SECTION("the kernel that writes neutral elements does not run") {
        planted = with_kernels;
        planted.cuda.launch_kernel = no_launch;
    }
    SECTION("the kernel that writes neutral elements runs in another stream") {
        planted = with_kernels;
        planted.cuda.launch_kernel = launch_in_program_stream;
    }
    CHECK(is_found(planted, 1));
}

}  // namespace
}  // namespace rueda::tests
