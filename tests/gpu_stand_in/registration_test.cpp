// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The Rueda authors
// Memory that is registered with NCCL, and memory of the program that is registered with the driver.
#include <array>

#include "tests/gpu_stand_in/fixture.hpp"

using namespace rueda::tests::gpu;

namespace {

constexpr std::size_t kBytes = 256;

DeviceAddress allocate_with_nccl() {
    void* memory = nullptr;
    MUST(nccl().allocate_memory(&memory, kBytes) == kNcclSuccess);
    return address_of(memory);
}

void* registered(NcclCommunicator communicator, DeviceAddress memory) {
    void* handle = nullptr;
    MUST(nccl().register_memory(communicator, pointer(memory), kBytes, &handle) == kNcclSuccess);
    return handle;
}

NcclResult reduce(DeviceAddress input, DeviceAddress output, NcclCommunicator communicator, CudaStream stream) {
    return nccl().all_reduce(pointer(input), pointer(output), 4, kNcclInt32, kNcclSum, communicator, stream);
}

/// Runs an allreduce on two ranks. Only one rank has registered its memory, or the ranks use different offsets. Waits
/// for the report of this violation. The allreduce hangs, so it is then aborted.
void check_misfit(const std::function<DeviceAddress(int rank, NcclCommunicator communicator)>& memory_of) {
    reset(1, 2);
    const NcclUniqueId id = make_id();
    CHECK(run_ranks_on_devices(2, [&](int rank) {
              const NcclCommunicator communicator = connect(id, 2, rank);
              const CudaStream stream = make_stream();
              const DeviceAddress memory = memory_of(rank, communicator);
              fill(memory, 0, 16, stream);
              MUST(reduce(memory, memory, communicator, stream) == kNcclSuccess);
              while (!has_violation("All ranks must pass registered memory, with the same offsets, or none")) {
                  std::this_thread::yield();
              }
              MUST(nccl().abort(communicator) == kNcclSuccess);
          }) == "");
}

}  // namespace

TEST_CASE("Registered memory is reduced on all ranks, and freed after its registration", "[unit]") {
    reset(3, 2);
    const NcclUniqueId id = make_id();
    CHECK(run_ranks_on_devices(2, [&](int rank) {
              const NcclCommunicator communicator = connect(id, 2, rank);
              const CudaStream stream = make_stream();
              const DeviceAddress memory = allocate_with_nccl();
              void* const handle = registered(communicator, memory);
              const std::array<std::int32_t, 4> values{1, 2, 3, 4};
              MUST(cuda().copy_async(memory + 64, address_of(values.data()), 16, stream) == kCudaSuccess);
              MUST(reduce(memory + 64, memory + 64, communicator, stream) == kNcclSuccess);
              MUST(download<std::int32_t>(memory + 64, 4, stream) == std::vector<std::int32_t>{2, 4, 6, 8});
              MUST(nccl().deregister_memory(communicator, handle) == kNcclSuccess);
              MUST(nccl().free_memory(pointer(memory)) == kNcclSuccess);
              MUST(nccl().destroy(communicator) == kNcclSuccess);
          }) == "");
    CHECK(violations().empty());
    CHECK(allocated_bytes() == 0);
}

TEST_CASE("Ranks of which only one passes registered memory are reported", "[unit]") {
    check_misfit([](int rank, NcclCommunicator communicator) {
        const DeviceAddress memory = allocate_with_nccl();
        if (rank == 0) {
            (void)registered(communicator, memory);
        }
        return memory;
    });
}

TEST_CASE("Ranks that pass registered memory with different offsets are reported", "[unit]") {
    check_misfit([](int rank, NcclCommunicator communicator) {
        const DeviceAddress memory = allocate_with_nccl();
        (void)registered(communicator, memory);
        return memory + (rank == 0 ? 0 : 16);
    });
}

TEST_CASE("An output that is not registered is reported beside a registered input", "[unit]") {
    reset(1, 1);
    const OnDevice device(0);
    const NcclCommunicator communicator = connect(make_id(), 1, 0);
    const CudaStream stream = make_stream();
    const DeviceAddress memory = allocate_with_nccl();
    (void)registered(communicator, memory);
    const DeviceAddress output = allocate(16);
    fill(memory, 0, 16, stream);
    CHECK(reduce(memory, output, communicator, stream) == kNcclSuccess);
    CHECK(has_violation("the input is in registered memory, and the output is not"));
    synchronize(stream);
    CHECK(nccl().destroy(communicator) == kNcclSuccess);
}

TEST_CASE("A registration that ends too early, or after its memory, is reported", "[unit]") {
    reset(1, 1);
    const OnDevice device(0);
    const NcclCommunicator communicator = connect(make_id(), 1, 0);
    const CudaStream stream = make_stream();
    const DeviceAddress memory = allocate_with_nccl();
    void* const handle = registered(communicator, memory);
    fill(memory, 0, 16, stream);
    hold_device(0);
    CHECK(reduce(memory, memory, communicator, stream) == kNcclSuccess);
    CHECK(nccl().deregister_memory(communicator, handle) == kNcclSuccess);
    CHECK(has_violation("the device still works on an operation of the communicator"));
    release_device(0);
    synchronize(stream);
    clear_violations();

    (void)registered(communicator, memory);
    CHECK(nccl().free_memory(pointer(memory)) == kNcclSuccess);
    CHECK(has_violation("the memory is registered with a communicator"));
    clear_violations();
    const DeviceAddress plain = allocate(kBytes);
    void* other = nullptr;
    CHECK(nccl().register_memory(communicator, pointer(plain), kBytes, &other) == kNcclInvalidArgument);
    CHECK(has_violation("not the beginning of memory of ncclMemAlloc()"));
    const DeviceAddress last = allocate_with_nccl();
    CHECK(cuda().memory_free(last) == kCudaInvalidValue);
    CHECK(nccl().destroy(communicator) == kNcclSuccess);
}

TEST_CASE("Memory of the program is pinned until it is unregistered", "[unit]") {
    reset(1, 1);
    const OnDevice device(0);
    const CudaStream stream = make_stream();
    alignas(4096) static std::array<unsigned char, 4096> memory{};
    CHECK(cuda().host_register(memory.data(), memory.size(), kRegisterPortable) == kCudaSuccess);
    CHECK(is_known(memory.data() + 4095));
    const DeviceAddress on_device = allocate(16);
    fill(on_device, 7, 16, stream);
    hold_device(0);
    CHECK(cuda().copy_async(address_of(memory.data()), on_device, 16, stream) == kCudaSuccess);  // does not wait
    CHECK(cuda().host_register(memory.data() + 64, 64, 0) == kCudaInvalidValue);
    CHECK(has_violation("is pinned already"));
    clear_violations();
    release_device(0);
    synchronize(stream);
    host_access(memory.data(), 16, false);
    CHECK(memory[15] == 7);
    CHECK(cuda().host_unregister(memory.data() + 64) == kCudaInvalidValue);
    CHECK(has_violation("not the beginning of memory that cuMemHostRegister() pinned"));
    clear_violations();
    CHECK(cuda().host_unregister(memory.data()) == kCudaSuccess);
    CHECK(!is_known(memory.data()));
    CHECK(violations().empty());
}

TEST_CASE("Memory that is unregistered while a copy uses it is reported", "[unit]") {
    reset(1, 1);
    const OnDevice device(0);
    const CudaStream stream = make_stream();
    alignas(4096) static std::array<unsigned char, 4096> memory{};
    CHECK(cuda().host_register(memory.data(), memory.size(), kRegisterPortable) == kCudaSuccess);
    const DeviceAddress on_device = allocate(16);
    fill(on_device, 7, 16, stream);
    CHECK(cuda().copy_async(address_of(memory.data()), on_device, 16, stream) == kCudaSuccess);
    settle();
    CHECK(cuda().host_unregister(memory.data()) == kCudaSuccess);
    CHECK(has_violation("cuMemHostUnregister by the host writes"));
}
