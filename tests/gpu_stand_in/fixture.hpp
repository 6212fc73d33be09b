// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The Rueda authors
#pragma once

#include <catch2/catch.hpp>
#include <chrono>
#include <cstring>
#include <functional>
#include <mutex>
#include <stdexcept>
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

/// Throws if the condition is false. Catch's macros may not be used in several threads at once, so the bodies of ranks
/// use this.
#define MUST(...) must((__VA_ARGS__), #__VA_ARGS__, __LINE__)
inline void must(bool condition, const char* text, int line) {
    if (!condition) {
        std::string all = "line " + std::to_string(line) + ": not true: " + text;
        for (const std::string& violation : violations()) {
            all += "\n" + violation;
        }
        throw std::runtime_error(all);
    }
}

/// Makes a device's context current for the calling thread.
class OnDevice {
public:
    explicit OnDevice(int device) : device_(device) {
        MUST(cuda().init(0) == kCudaSuccess);
        CudaContext context = nullptr;
        MUST(cuda().primary_context_retain(&context, device) == kCudaSuccess);
        MUST(cuda().context_push(context) == kCudaSuccess);
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
    MUST(cuda().stream_create_with_priority(&stream, flags, 0) == kCudaSuccess);
    return stream;
}
inline CudaEvent make_event(unsigned flags = kEventDisableTiming) {
    CudaEvent event = nullptr;
    MUST(cuda().event_create(&event, flags) == kCudaSuccess);
    return event;
}
inline DeviceAddress allocate(std::size_t bytes) {
    DeviceAddress address = 0;
    MUST(cuda().memory_allocate(&address, bytes) == kCudaSuccess);
    return address;
}
inline void* pointer(DeviceAddress address) { return reinterpret_cast<void*>(address); }
template <typename T>
DeviceAddress address_of(T* pointer) {
    return static_cast<DeviceAddress>(reinterpret_cast<std::uintptr_t>(pointer));
}
inline void fill(DeviceAddress address, unsigned char value, std::size_t bytes, CudaStream stream) {
    MUST(cuda().fill_async(address, value, bytes, stream) == kCudaSuccess);
}
inline void record(CudaEvent event, CudaStream stream) { MUST(cuda().event_record(event, stream) == kCudaSuccess); }
inline void wait_for(CudaStream stream, CudaEvent event) {
    MUST(cuda().stream_wait_event(stream, event, 0) == kCudaSuccess);
}
inline void synchronize(CudaStream stream) { MUST(cuda().stream_synchronize(stream) == kCudaSuccess); }
/// Reads a byte of device memory, as the program on the host would do.
inline unsigned char byte_at(DeviceAddress address) {
    host_access(address, 1, false);
    return *static_cast<unsigned char*>(pointer(address));
}

/// Copies values to new device memory, in the stream.
template <typename T>
DeviceAddress upload(const std::vector<T>& values, CudaStream stream) {
    const DeviceAddress address = allocate(values.size() * sizeof(T));
    MUST(cuda().copy_async(address, address_of(values.data()), values.size() * sizeof(T), stream) == kCudaSuccess);
    return address;
}
/// Copies values from device memory. The call returns when the copy has ended, because the destination is pageable
/// memory.
template <typename T>
std::vector<T> download(DeviceAddress address, std::size_t count, CudaStream stream) {
    std::vector<T> values(count);
    MUST(cuda().copy_async(address_of(values.data()), address, count * sizeof(T), stream) == kCudaSuccess);
    return values;
}

/// Whether one of the violations contains the text.
inline bool has_violation(const std::string& part) {
    for (const std::string& text : violations()) {
        if (text.find(part) != std::string::npos) {
            return true;
        }
    }
    return false;
}

/// Runs the body on a thread for each rank, with the device of the same number. Returns what the bodies threw.
inline std::string run_ranks_on_devices(int ranks, const std::function<void(int rank)>& body) {
    std::mutex mutex;
    std::string failures;
    std::vector<std::thread> threads;
    for (int rank = 0; rank < ranks; ++rank) {
        threads.emplace_back([&, rank] {
            try {
                const OnDevice device(rank);
                body(rank);
            } catch (const std::exception& error) {
                const std::lock_guard lock(mutex);
                failures += "rank " + std::to_string(rank) + ": " + error.what() + "\n";
            }
        });
    }
    for (std::thread& thread : threads) {
        thread.join();
    }
    return failures;
}

inline NcclUniqueId make_id() {
    NcclUniqueId id{};
    MUST(nccl().get_unique_id(&id) == kNcclSuccess);
    return id;
}
inline NcclCommunicator connect(const NcclUniqueId& id, int ranks, int rank) {
    NcclCommunicator communicator = nullptr;
    NcclConfig config;
    MUST(nccl().init_rank(&communicator, ranks, id, rank, &config) == kNcclSuccess);
    return communicator;
}
/// Polls get_async_error() until no call is in progress on the communicator. Returns the error.
inline NcclResult finish_call(NcclCommunicator communicator) {
    NcclResult error = kNcclInProgress;
    while (error == kNcclInProgress) {
        MUST(nccl().get_async_error(communicator, &error) == kNcclSuccess);
        std::this_thread::yield();
    }
    return error;
}
inline NcclCommunicator connect_without_blocking(const NcclUniqueId& id, int ranks, int rank) {
    NcclCommunicator communicator = nullptr;
    NcclConfig config;
    config.blocking = 0;
    MUST(nccl().init_rank(&communicator, ranks, id, rank, &config) == kNcclInProgress);
    MUST(finish_call(communicator) == kNcclSuccess);
    return communicator;
}
inline void all_reduce(DeviceAddress address, std::size_t count, NcclCommunicator communicator, CudaStream stream) {
    MUST(nccl().all_reduce(pointer(address), pointer(address), count, kNcclFloat32, kNcclSum, communicator, stream) ==
         kNcclSuccess);
}

}  // namespace rueda::tests::gpu
