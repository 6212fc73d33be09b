// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The Rueda authors
#include <atomic>
#include <barrier>

#include "tests/gpu_stand_in/fixture.hpp"

using namespace rueda::tests::gpu;

namespace {

NcclConfig non_blocking() {
    NcclConfig config;
    config.blocking = 0;
    return config;
}

bool is_done(CudaEvent event) { return cuda().event_query(event) == kCudaSuccess; }

}  // namespace

TEST_CASE("A non-blocking communicator is in progress until all ranks are there", "[unit]") {
    for (std::uint64_t seed = 0; seed < 10; ++seed) {
        reset(seed, 2);
        const NcclUniqueId id = make_id();
        const OnDevice device(0);
        NcclConfig config = non_blocking();
        NcclCommunicator first = nullptr;
        REQUIRE(nccl().init_rank(&first, 2, id, 0, &config) == kNcclInProgress);
        NcclResult error = kNcclSuccess;
        for (int i = 0; i < 20; ++i) {
            CHECK(nccl().get_async_error(first, &error) == kNcclSuccess);
            CHECK(error == kNcclInProgress);
        }
        const OnDevice other(1);
        NcclCommunicator second = nullptr;
        REQUIRE(nccl().init_rank(&second, 2, id, 1, &config) == kNcclInProgress);
        CHECK(finish_call(first) == kNcclSuccess);
        CHECK(finish_call(second) == kNcclSuccess);
        CHECK(violations().empty());
        CHECK(nccl().destroy(first) == kNcclSuccess);
        CHECK(nccl().destroy(second) == kNcclSuccess);
    }
}

TEST_CASE("A communicator that is used before its initialisation succeeded is reported", "[unit]") {
    reset(1, 1);
    const OnDevice device(0);
    NcclConfig config = non_blocking();
    NcclCommunicator communicator = nullptr;
    REQUIRE(nccl().init_rank(&communicator, 1, make_id(), 0, &config) == kNcclInProgress);
    const DeviceAddress values = allocate(4);
    CHECK(nccl().all_reduce(pointer(values), pointer(values), 1, kNcclFloat32, kNcclSum, communicator, make_stream()) ==
          kNcclInvalidArgument);
    CHECK(has_violation("used before its last call succeeded"));
}

TEST_CASE("An event that is recorded before a group has succeeded misses the group, and is reported", "[unit]") {
    int reported = 0;
    int in_progress = 0;
    for (std::uint64_t seed = 0; seed < 12; ++seed) {
        reset(seed, 1);
        const OnDevice device(0);
        const NcclCommunicator communicator = connect_without_blocking(make_id(), 1, 0);
        const CudaStream stream = make_stream();
        const CudaEvent event = make_event();
        const DeviceAddress values = upload(std::vector<float>{1}, stream);
        const NcclResult result =
            nccl().all_reduce(pointer(values), pointer(values), 1, kNcclFloat32, kNcclSum, communicator, stream);
        in_progress += result == kNcclInProgress ? 1 : 0;
        record(event, stream);
        CHECK(finish_call(communicator) == kNcclSuccess);
        CHECK(cuda().event_synchronize(event) == kCudaSuccess);
        const bool found =
            has_violation("cuEventRecord in stream 2 of device 0 is put into a stream while NCCL's call");
        CHECK(found == (result == kNcclInProgress));
        reported += found ? 1 : 0;
        clear_violations();
        (void)byte_at(values);
        // If `found` is true, the event was put into the stream before NCCL's kernel. The host program waited only for
        // this event, so it reads too early.
        CHECK(has_violation("Race") == found);
    }
    CHECK(reported > 0);
    CHECK(in_progress < 12);
}

TEST_CASE("A group on non-blocking communicators, as it should be", "[unit]") {
    for (std::uint64_t seed = 0; seed < 10; ++seed) {
        reset(seed, 2);
        const NcclUniqueId id = make_id();
        CHECK(run_ranks_on_devices(2, [&](int rank) {
                  const NcclCommunicator communicator = connect_without_blocking(id, 2, rank);
                  const CudaStream stream = make_stream();
                  const CudaEvent event = make_event();
                  const DeviceAddress values = upload(std::vector<float>{1}, stream);
                  for (int i = 0; i < 5; ++i) {
                      MUST(nccl().group_start() == kNcclSuccess);
                      all_reduce(values, 1, communicator, stream);
                      const NcclResult result = nccl().group_end();
                      MUST(result == kNcclSuccess || result == kNcclInProgress);
                      MUST(finish_call(communicator) == kNcclSuccess);
                      record(event, stream);
                  }
                  MUST(cuda().event_synchronize(event) == kCudaSuccess);
                  host_access(values, 4, false);
                  MUST(*static_cast<float*>(pointer(values)) == 32);
                  MUST(nccl().finalize(communicator) == kNcclInProgress);
                  MUST(finish_call(communicator) == kNcclSuccess);
                  MUST(nccl().destroy(communicator) == kNcclSuccess);
              }) == "");
        CHECK(violations().empty());
    }
}

TEST_CASE("A kernel of NCCL waits for the other ranks, and occupies its stream", "[unit]") {
    reset(1, 2);
    const NcclUniqueId id = make_id();
    std::atomic<bool> first_has_looked{false};  // rank 0 stores this flag with release; rank 1 loads it with acquire
    CHECK(run_ranks_on_devices(2, [&](int rank) {
              const NcclCommunicator communicator = connect_without_blocking(id, 2, rank);
              set_nccl_progress_calls(0);
              const CudaStream stream = make_stream();
              const CudaEvent event = make_event();
              const DeviceAddress values = upload(std::vector<float>{1}, stream);
              while (rank == 1 && !first_has_looked.load(std::memory_order_acquire)) {
                  std::this_thread::yield();
              }
              all_reduce(values, 1, communicator, stream);
              record(event, stream);
              if (rank == 0) {
                  settle();
                  MUST(!is_done(event));
                  MUST(outstanding() == 2);
                  first_has_looked.store(true, std::memory_order_release);
              }
              synchronize(stream);
              MUST(is_done(event));
              MUST(nccl().destroy(communicator) == kNcclSuccess);
          }) == "");
}

TEST_CASE("An abort ends the waiting kernel, and only that of the own rank", "[unit]") {
    reset(1, 2);
    set_nccl_progress_calls(0);
    const NcclUniqueId id = make_id();
    std::barrier both(2);
    CHECK(run_ranks_on_devices(2, [&](int rank) {
              const NcclCommunicator communicator = connect_without_blocking(id, 2, rank);
              const CudaStream stream = make_stream();
              const CudaEvent event = make_event();
              const DeviceAddress values = upload(std::vector<float>{1}, stream);
              if (rank == 0) {  // rank 1 never launches
                  all_reduce(values, 1, communicator, stream);
                  record(event, stream);
              }
              both.arrive_and_wait();
              if (rank == 1) {
                  MUST(nccl().abort(communicator) == kNcclSuccess);
              }
              both.arrive_and_wait();
              if (rank == 0) {
                  settle();
                  MUST(!is_done(event));
                  MUST(nccl().abort(communicator) == kNcclSuccess);
                  MUST(cuda().event_synchronize(event) == kCudaSuccess);
                  host_access(values, 4, false);
                  MUST(*static_cast<float*>(pointer(values)) != 1);  // partly written
              }
          }) == "");
    CHECK(violations().empty());
    CHECK(live_communicators() == 0);
}

TEST_CASE("Operations of different orders hang until the abort, and are reported", "[unit]") {
    reset(1, 2);
    set_nccl_progress_calls(0);
    const NcclUniqueId id = make_id();
    CHECK(run_ranks_on_devices(2, [&](int rank) {
              const NcclCommunicator communicator = connect_without_blocking(id, 2, rank);
              const CudaStream stream = make_stream();
              const DeviceAddress values = upload(std::vector<float>{1}, stream);
              if (rank == 0) {
                  all_reduce(values, 1, communicator, stream);
              } else {
                  MUST(nccl().broadcast(pointer(values), pointer(values), 1, kNcclFloat32, 0, communicator, stream) ==
                       kNcclSuccess);
              }
              while (!has_violation("NCCL hangs then")) {
                  std::this_thread::yield();
              }
              MUST(cuda().stream_query(stream) == kCudaNotReady);
              MUST(nccl().abort(communicator) == kNcclSuccess);
              synchronize(stream);
          }) == "");
}

namespace {

/// Uses two communicators over the same two devices. Each device uses the communicators in a different order. Returns
/// how many of the devices hang.
int hanging_devices(bool one_at_a_time) {
    reset(1, 2);
    set_nccl_progress_calls(0);
    set_one_nccl_kernel_at_a_time(one_at_a_time);
    const NcclUniqueId ids[] = {make_id(), make_id()};
    std::atomic<int> hanging{0};  // relaxed: the last read comes after the threads were joined
    std::barrier both(2);
    CHECK(run_ranks_on_devices(2, [&](int rank) {
              const NcclCommunicator communicators[] = {connect_without_blocking(ids[0], 2, rank),
                                                        connect_without_blocking(ids[1], 2, rank)};
              const CudaStream streams[] = {make_stream(), make_stream()};
              const DeviceAddress values[] = {upload(std::vector<float>{1}, streams[0]),
                                              upload(std::vector<float>{1}, streams[1])};
              const int first = rank;
              all_reduce(values[first], 1, communicators[first], streams[first]);
              settle();  // lets the device start the first kernel before the second one is launched
              both.arrive_and_wait();
              all_reduce(values[1 - first], 1, communicators[1 - first], streams[1 - first]);
              both.arrive_and_wait();
              if (one_at_a_time) {
                  settle();
              } else {
                  synchronize(streams[0]);
                  synchronize(streams[1]);
              }
              hanging.fetch_add(cuda().stream_query(streams[first]) == kCudaNotReady ? 1 : 0,
                                std::memory_order_relaxed);
              both.arrive_and_wait();
              MUST(nccl().group_start() == kNcclSuccess);
              MUST(nccl().abort(communicators[0]) == kNcclSuccess);
              MUST(nccl().abort(communicators[1]) == kNcclSuccess);
              MUST(nccl().group_end() == kNcclSuccess);
              synchronize(streams[0]);
              synchronize(streams[1]);
          }) == "");
    CHECK(violations().empty());
    return hanging.load(std::memory_order_relaxed);
}

}  // namespace

TEST_CASE("Two communicators in different orders deadlock if kernels do not overlap", "[unit]") {
    CHECK(hanging_devices(true) == 2);
    CHECK(hanging_devices(false) == 0);
}

TEST_CASE("Aborts one by one wait for each other's kernels, and a group of aborts does not", "[unit]") {
    reset(1, 2);
    set_nccl_progress_calls(0);
    set_one_nccl_kernel_at_a_time(false);
    const NcclUniqueId ids[] = {make_id(), make_id()};
    // The aborting thread stores this flag with release. The other thread loads the flag with acquire.
    std::atomic<bool> has_aborted{false};
    const OnDevice other_device(1);
    NcclCommunicator others[2];
    NcclConfig config = non_blocking();
    MUST(nccl().init_rank(&others[0], 2, ids[0], 1, &config) == kNcclInProgress);
    MUST(nccl().init_rank(&others[1], 2, ids[1], 1, &config) == kNcclInProgress);
    const OnDevice device(0);
    const NcclCommunicator communicators[] = {connect_without_blocking(ids[0], 2, 0),
                                              connect_without_blocking(ids[1], 2, 0)};
    const CudaStream streams[] = {make_stream(), make_stream()};
    for (int i = 0; i < 2; ++i) {
        all_reduce(upload(std::vector<float>{1}, streams[i]), 1, communicators[i], streams[i]);
    }
    settle();
    std::thread aborting([&] {
        (void)nccl().abort(communicators[0]);
        has_aborted.store(true, std::memory_order_release);
    });
    while (cuda().stream_query(streams[0]) == kCudaNotReady) {  // the kernel itself has ended
        std::this_thread::yield();
    }
    settle();
    CHECK_FALSE(has_aborted.load(std::memory_order_acquire));
    CHECK(nccl().abort(communicators[1]) == kNcclSuccess);
    aborting.join();
    CHECK(has_aborted.load(std::memory_order_acquire));
    CHECK(nccl().abort(others[0]) == kNcclSuccess);
    CHECK(nccl().abort(others[1]) == kNcclSuccess);
}

TEST_CASE("Two threads that launch work of two communicators on one device at the same time are reported", "[unit]") {
    const auto launch = [](NcclCommunicator communicator, CudaStream stream) {
        const DeviceAddress values = upload(std::vector<float>{1}, stream);
        return nccl().all_reduce(pointer(values), pointer(values), 1, kNcclFloat32, kNcclSum, communicator, stream);
    };
    constexpr const char* kText = "two threads launch work of two communicators of NCCL on device 0 at the same time";
    reset(1, 1);
    const OnDevice device(0);
    const NcclCommunicator one = connect_without_blocking(make_id(), 1, 0);
    const NcclCommunicator other = connect_without_blocking(make_id(), 1, 0);
    const CudaStream stream = make_stream();
    const CudaStream other_stream = make_stream();
    const auto launch_in_a_thread = [&](NcclCommunicator communicator) {
        std::thread([&] {
            const OnDevice same(0);
            const NcclResult result = launch(communicator, other_stream);
            MUST(result == kNcclSuccess || result == kNcclInProgress);
            MUST(finish_call(communicator) == kNcclSuccess);
        }).join();
    };
    SECTION("one thread is inside a group") {
        REQUIRE(nccl().group_start() == kNcclSuccess);
        REQUIRE(launch(one, stream) == kNcclSuccess);
        launch_in_a_thread(other);
        (void)nccl().group_end();
        CHECK(finish_call(one) == kNcclSuccess);
        CHECK(has_violation(kText));
    }
    SECTION("a call of one thread is in progress") {
        while (launch(one, stream) != kNcclInProgress) {
        }
        launch_in_a_thread(other);
        CHECK(finish_call(one) == kNcclSuccess);
        CHECK(has_violation(kText));
    }
    SECTION("the launches follow each other") {
        for (int i = 0; i < 20; ++i) {
            (void)launch(one, stream);
            CHECK(finish_call(one) == kNcclSuccess);
            launch_in_a_thread(other);
        }
        CHECK(violations().empty());
    }
    SECTION("a failed group ends its launches") {
        REQUIRE(nccl().group_start() == kNcclSuccess);
        REQUIRE(launch(one, stream) == kNcclSuccess);
        (void)nccl().all_reduce(nullptr, nullptr, 1, -1, kNcclSum, one, stream);
        CHECK(nccl().group_end() == kNcclInvalidArgument);
        launch_in_a_thread(other);
        CHECK(violations().empty());
    }
}

TEST_CASE("An operation fails as the test wants", "[unit]") {
    reset(1, 1);
    set_nccl_progress_calls(0);
    const OnDevice device(0);
    const NcclCommunicator communicator = connect_without_blocking(make_id(), 1, 0);
    const CudaStream stream = make_stream();
    const DeviceAddress values = upload(std::vector<float>{1}, stream);
    fail_operation(2, kNcclRemoteError);
    all_reduce(values, 1, communicator, stream);
    synchronize(stream);
    NcclResult error = kNcclInProgress;
    CHECK(nccl().get_async_error(communicator, &error) == kNcclSuccess);
    CHECK(error == kNcclSuccess);
    all_reduce(values, 1, communicator, stream);
    settle();
    CHECK(nccl().get_async_error(communicator, &error) == kNcclSuccess);
    CHECK(error == kNcclRemoteError);
    CHECK(std::string(nccl().get_last_error(communicator)) == "the stand-in made this operation fail");
    CHECK(nccl().all_reduce(pointer(values), pointer(values), 1, kNcclFloat32, kNcclSum, communicator, stream) ==
          kNcclRemoteError);
    CHECK(cuda().stream_query(stream) == kCudaNotReady);
    CHECK(nccl().abort(communicator) == kNcclSuccess);
    synchronize(stream);
    CHECK(violations().empty());
}

TEST_CASE("A lost rank is noticed only if NCCL is set to notice it", "[unit]") {
    for (const bool notices : {false, true}) {
        reset(1, 2);
        set_nccl_notices_lost_ranks(notices);
        const NcclUniqueId id = make_id();
        std::barrier both(2);
        CHECK(run_ranks_on_devices(2, [&](int rank) {
                  const NcclCommunicator communicator = connect_without_blocking(id, 2, rank);
                  both.arrive_and_wait();
                  if (rank == 1) {
                      lose_rank(communicator);
                  }
                  both.arrive_and_wait();
                  NcclResult error = kNcclInProgress;
                  MUST(rank == 1 || nccl().get_async_error(communicator, &error) == kNcclSuccess);
                  MUST(rank == 1 || error == (notices ? kNcclRemoteError : kNcclSuccess));
                  both.arrive_and_wait();
                  MUST(nccl().abort(communicator) == kNcclSuccess);
              }) == "");
    }
}

TEST_CASE("Two ranks on one device need NCCL 2.30 and a variable", "[unit]") {
    for (const bool allowed : {false, true}) {
        reset(1, 1);
        set_nccl_version(allowed ? 23007 : 22809);
        ::setenv("NCCL_MULTI_RANK_GPU_ENABLE", "1", 1);  // NOLINT(concurrency-mt-unsafe): one thread
        const OnDevice device(0);
        const NcclUniqueId id = make_id();
        NcclConfig config = non_blocking();
        NcclCommunicator communicators[2];
        REQUIRE(nccl().init_rank(&communicators[0], 2, id, 0, &config) == kNcclInProgress);
        REQUIRE(nccl().init_rank(&communicators[1], 2, id, 1, &config) == kNcclInProgress);
        CHECK(finish_call(communicators[0]) == (allowed ? kNcclSuccess : kNcclInvalidUsage));
        if (!allowed) {
            CHECK(std::string(nccl().get_last_error(communicators[0])) ==
                  "Duplicate GPU detected : rank 0 and rank 1 both on CUDA device 0");
        }
        CHECK(nccl().abort(communicators[0]) == kNcclSuccess);
        CHECK(nccl().abort(communicators[1]) == kNcclSuccess);
        ::unsetenv("NCCL_MULTI_RANK_GPU_ENABLE");  // NOLINT(concurrency-mt-unsafe): one thread
    }
}

TEST_CASE("Wrong uses of communicators are reported", "[unit]") {
    reset(1, 2);
    REQUIRE(cuda().init(0) == kCudaSuccess);
    NcclCommunicator communicator = nullptr;
    NcclConfig config;
    CHECK(nccl().init_rank(&communicator, 1, make_id(), 0, &config) == kNcclSuccess);
    CHECK(has_violation("no context is current"));
    clear_violations();
    const OnDevice device(1);
    const DeviceAddress values = allocate(4);
    CHECK(nccl().all_reduce(pointer(values), pointer(values), 1, kNcclFloat32, kNcclSum, communicator, make_stream()) ==
          kNcclInvalidArgument);
    CHECK(has_violation("the stream is of device 1, and the communicator is of device 0"));
    int version = 0;
    CHECK(nccl().get_version(&version) == kNcclSuccess);
    CHECK(version == 22809);
    set_nccl_version(22100);
    CHECK(nccl().group_start() == kNcclSuccess);
    CHECK(nccl().abort(communicator) == kNcclInvalidUsage);
    CHECK(has_violation("does not allow an abort in a group"));
    CHECK(nccl().group_end() == kNcclSuccess);
    CHECK(nccl().abort(communicator) == kNcclSuccess);
}

TEST_CASE("A broken device is an asynchronous error of its communicators", "[unit]") {
    reset(1, 2);
    set_nccl_progress_calls(0);
    const NcclUniqueId id = make_id();
    CHECK(run_ranks_on_devices(2, [&](int rank) {
              const NcclCommunicator communicator = connect_without_blocking(id, 2, rank);
              const CudaStream stream = make_stream();
              const DeviceAddress values = upload(std::vector<float>{1}, stream);
              if (rank == 0) {
                  all_reduce(values, 1, communicator, stream);
                  settle();
                  break_device(0, kCudaIllegalAddress);
                  settle();
                  NcclResult error = kNcclSuccess;
                  MUST(nccl().get_async_error(communicator, &error) == kNcclSuccess);
                  MUST(error == kNcclUnhandledCudaError);
              }
              MUST(nccl().abort(communicator) == kNcclSuccess);
          }) == "");
    CHECK(violations().empty());
}
