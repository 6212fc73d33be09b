// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The Rueda authors
#include "gpu.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cstring>

#include "../rueda_bench/values.hpp"
#include "collectives/cuda/load_cuda.hpp"
#include "ops/cuda/kernel_image.hpp"

namespace rueda::bench {
namespace {

using namespace collectives::cuda;

CudaApi loaded_cuda() {
    Result<CudaApi> loaded = load_cuda();
    loaded.status().throw_if_failed();
    return loaded.value();
}

DeviceAddress address_of(const void* memory) { return reinterpret_cast<DeviceAddress>(memory); }

/// The values repeat after kModulus elements. A block has many periods, so that whole blocks can be compared at once.
constexpr std::uint64_t kBlockElements = std::uint64_t{kModulus} * 1024;

std::vector<std::byte> block_of(DType dtype, const Values& values) {
    const Encoding encoding(dtype);
    const std::size_t size = size_of(dtype);
    std::vector<std::byte> block(kBlockElements * size);
    for (std::uint64_t i = 0; i < kBlockElements; ++i) {
        encoding.write(block.data() + i * size, values.factor * value_at(i, 0, 0) + values.offset);
    }
    return block;
}

}  // namespace

Gpu::Gpu(int ordinal) : api_(loaded_cuda()), ordinal_(ordinal) {
    int device = 0;
    std::array<char, 128> name{};
    CudaContext context = nullptr;
    check(api_.device_get(&device, ordinal), "cuDeviceGet");
    check(api_.device_get_name(name.data(), static_cast<int>(name.size() - 1), device), "cuDeviceGetName");
    check(api_.primary_context_retain(&context, device), "cuDevicePrimaryCtxRetain");
    check(api_.context_push(context), "cuCtxPushCurrent");
    name_ = name.data();
    stream_ = make_stream();
}

std::string Gpu::driver_version() const {
    int version = 0;
    check(api_.driver_get_version(&version), "cuDriverGetVersion");
    return fmt::format("{}.{}", version / 1000, version % 1000 / 10);
}

CudaStream Gpu::make_stream() const {
    CudaStream stream = nullptr;
    check(api_.stream_create_with_priority(&stream, kStreamNonBlocking, 0), "cuStreamCreateWithPriority");
    return stream;
}

void Gpu::copy(void* to, const void* from, std::size_t bytes, CudaStream stream) const {
    check(api_.copy_async(address_of(to), address_of(from), bytes, stream), "cuMemcpyAsync");
}

void Gpu::check(CudaResult result, const char* call) const {
    if (result != kCudaSuccess) {
        cuda_failure(api_, ErrorCode::unsupported, call, ordinal_, result).throw_if_failed();
    }
}

CudaFunction Gpu::function_of(const char* name) {
    const auto found = std::find_if(functions_.begin(), functions_.end(),
                                    [&](const auto& known) { return std::strcmp(known.first, name) == 0; });
    if (found != functions_.end()) {
        return found->second;
    }
    if (module_ == nullptr) {
        if (ops::cuda::kernel_image().empty()) {
            throw Unsupported("Rueda was built without device kernels, because CMake found neither nvcc nor clang++");
        }
        check(api_.module_load_data(&module_, ops::cuda::kernel_image().data()), "cuModuleLoadData");
    }
    CudaFunction function = nullptr;
    check(api_.module_get_function(&function, module_, name), "cuModuleGetFunction");
    functions_.emplace_back(name, function);
    return function;
}

void Gpu::launch_kernel(const char* name, ops::cuda::Geometry geometry, void** parameters) {
    check(api_.launch_kernel(function_of(name), geometry.blocks, geometry.rows, 1, ops::cuda::kThreads, 1, 1, 0,
                             stream_, parameters, nullptr),
          "cuLaunchKernel");
}

Memory::Memory(const Gpu& gpu, Kind kind, std::size_t bytes) : gpu_(gpu), kind_(kind) {
    if (kind == Kind::device) {
        DeviceAddress address = 0;
        gpu.check(gpu.api().memory_allocate(&address, bytes), "cuMemAlloc");
        data_ = reinterpret_cast<std::byte*>(address);
    } else {
        void* address = nullptr;
        gpu.check(gpu.api().host_allocate(&address, bytes, kHostPortable), "cuMemHostAlloc");
        data_ = static_cast<std::byte*>(address);
    }
}

Memory::~Memory() {
    if (kind_ == Kind::device) {
        static_cast<void>(gpu_.api().memory_free(address_of(data_)));
    } else {
        static_cast<void>(gpu_.api().host_free(data_));
    }
}

Event::Event(const Gpu& gpu, Use use) : gpu_(gpu) {
    gpu.check(gpu.api().event_create(&event_, use == Use::time ? 0 : kEventDisableTiming), "cuEventCreate");
}
Event::~Event() { static_cast<void>(gpu_.api().event_destroy(event_)); }
void Event::record(CudaStream stream) const { gpu_.check(gpu_.api().event_record(event_, stream), "cuEventRecord"); }
void Event::make_wait(CudaStream stream) const {
    gpu_.check(gpu_.api().stream_wait_event(stream, event_, 0), "cuStreamWaitEvent");
}
double Event::microseconds_since(const Event& begin) const {
    float milliseconds = 0;
    gpu_.check(gpu_.api().event_elapsed_time(&milliseconds, begin.event_, event_), "cuEventElapsedTime");
    return static_cast<double>(milliseconds) * 1e3;
}

void write_values(std::byte* memory, DType dtype, std::uint64_t count, const Values& values) {
    const std::vector<std::byte> block = block_of(dtype, values);
    const std::uint64_t bytes = count * size_of(dtype);
    for (std::uint64_t done = 0; done < bytes; done += block.size()) {
        std::memcpy(memory + done, block.data(), std::min<std::uint64_t>(block.size(), bytes - done));
    }
}

std::uint64_t count_wrong(const std::byte* memory, DType dtype, std::uint64_t count, const Values& values) {
    const std::vector<std::byte> block = block_of(dtype, values);
    const std::size_t size = size_of(dtype);
    const std::uint64_t bytes = count * size;
    std::uint64_t wrong = 0;
    for (std::uint64_t done = 0; done < bytes; done += block.size()) {
        const std::uint64_t part = std::min<std::uint64_t>(block.size(), bytes - done);
        if (std::memcmp(memory + done, block.data(), part) == 0) {
            continue;
        }
        for (std::uint64_t at = 0; at < part; at += size) {
            wrong += std::memcmp(memory + done + at, block.data() + at, size) == 0 ? 0U : 1U;
        }
    }
    return wrong;
}

double quantile(std::vector<double> numbers, double q) {
    const auto at = static_cast<std::ptrdiff_t>(q * static_cast<double>(numbers.size() - 1) + 0.5);
    std::nth_element(numbers.begin(), numbers.begin() + at, numbers.end());
    return numbers[static_cast<std::size_t>(at)];
}

}  // namespace rueda::bench
