// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The Rueda authors
#pragma once

#include <catch2/catch.hpp>
#include <cstring>
#include <functional>
#include <string>
#include <thread>
#include <vector>

#include "tests/support/gpu_stand_in/api.hpp"
#include "tests/support/gpu_stand_in/control.hpp"

namespace rueda::tests::gpu {

using namespace collectives::cuda;

inline const CudaApi& cuda() {
    static const CudaApi api = open_cuda();
    return api;
}
inline const NcclApi& nccl() {
    static const NcclApi api = open_nccl();
    return api;
}

/// Makes a device's context current for the calling thread.
class OnDevice {
public:
    explicit OnDevice(int device) : device_(device) {
        REQUIRE(cuda().init(0) == kCudaSuccess);
        CudaContext context = nullptr;
        REQUIRE(cuda().primary_context_retain(&context, device) == kCudaSuccess);
        REQUIRE(cuda().context_push(context) == kCudaSuccess);
    }
    ~OnDevice() {
        CudaContext context = nullptr;
        (void)cuda().context_pop(&context);
        (void)cuda().primary_context_release(device_);
    }
    OnDevice(const OnDevice&) = delete;
    OnDevice& operator=(const OnDevice&) = delete;

private:
    int device_;
};

inline CudaStream make_stream(unsigned flags = kStreamNonBlocking) {
    CudaStream stream = nullptr;
    REQUIRE(cuda().stream_create_with_priority(&stream, flags, 0) == kCudaSuccess);
    return stream;
}
inline CudaEvent make_event(unsigned flags = kEventDisableTiming) {
    CudaEvent event = nullptr;
    REQUIRE(cuda().event_create(&event, flags) == kCudaSuccess);
    return event;
}
inline DeviceAddress allocate(std::size_t bytes) {
    DeviceAddress address = 0;
    REQUIRE(cuda().memory_allocate(&address, bytes) == kCudaSuccess);
    return address;
}
inline void* pointer(DeviceAddress address) { return reinterpret_cast<void*>(address); }
template <typename T>
DeviceAddress address_of(T* pointer) {
    return static_cast<DeviceAddress>(reinterpret_cast<std::uintptr_t>(pointer));
}

/// Copies values to new device memory, in the stream.
template <typename T>
DeviceAddress upload(const std::vector<T>& values, CudaStream stream) {
    const DeviceAddress address = allocate(values.size() * sizeof(T));
    REQUIRE(cuda().copy_async(address, address_of(values.data()), values.size() * sizeof(T), stream) == kCudaSuccess);
    return address;
}
/// Copies values from device memory. The copy to pageable memory waits until it has ended.
template <typename T>
std::vector<T> download(DeviceAddress address, std::size_t count, CudaStream stream) {
    std::vector<T> values(count);
    REQUIRE(cuda().copy_async(address_of(values.data()), address, count * sizeof(T), stream) == kCudaSuccess);
    return values;
}

inline bool has_violation(const std::string& part) {
    for (const std::string& text : violations()) {
        if (text.find(part) != std::string::npos) {
            return true;
        }
    }
    return false;
}

/// Runs the body on a thread for each rank, with the device of the same number.
inline void run_ranks_on_devices(int ranks, const std::function<void(int rank)>& body) {
    std::vector<std::thread> threads;
    for (int rank = 0; rank < ranks; ++rank) {
        threads.emplace_back([&body, rank] {
            const OnDevice device(rank);
            body(rank);
        });
    }
    for (std::thread& thread : threads) {
        thread.join();
    }
}

inline NcclUniqueId make_id() {
    NcclUniqueId id{};
    REQUIRE(nccl().get_unique_id(&id) == kNcclSuccess);
    return id;
}
inline NcclCommunicator connect(const NcclUniqueId& id, int ranks, int rank) {
    NcclCommunicator communicator = nullptr;
    NcclConfig config;
    REQUIRE(nccl().init_rank(&communicator, ranks, id, rank, &config) == kNcclSuccess);
    return communicator;
}

}  // namespace rueda::tests::gpu
