// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The Rueda authors
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <utility>
#include <vector>

#include "collectives/cuda/cuda_api.hpp"
#include "ops/cuda/launch.hpp"
#include "rueda/types.hpp"

namespace rueda::bench {

/// One GPU of this process, through the driver. All functions throw rueda::Error if the driver reports an error.
/// Threads: only the thread that made the object may use it, because the GPU's context is current on this thread.
class Gpu {
public:
    explicit Gpu(int ordinal);
    Gpu(const Gpu&) = delete;
    Gpu& operator=(const Gpu&) = delete;

    [[nodiscard]] const collectives::cuda::CudaApi& api() const { return api_; }
    [[nodiscard]] int ordinal() const { return ordinal_; }
    [[nodiscard]] const std::string& name() const { return name_; }
    /// Returns the version of CUDA that the driver supports, for example "13.0".
    [[nodiscard]] std::string driver_version() const;
    [[nodiscard]] collectives::cuda::CudaStream stream() const { return stream_; }
    [[nodiscard]] collectives::cuda::CudaStream make_stream() const;
    void synchronise() const { check(api_.stream_synchronize(stream_), "cuStreamSynchronize"); }

    /// Enqueues a copy in a stream. Each of the two addresses may be on the GPU or in pinned memory.
    void copy(void* to, const void* from, std::size_t bytes, collectives::cuda::CudaStream stream) const;
    void copy(void* to, const void* from, std::size_t bytes) const { copy(to, from, bytes, stream_); }

    /// Enqueues a kernel in this object's stream. The first call of this function loads the kernels.
    template <class Arguments>
    void launch(const ops::cuda::Launch<Arguments>& launch) {
        Arguments arguments = launch.arguments;
        void* parameters[] = {&arguments};
        launch_kernel(launch.kernel, launch.geometry, parameters);
    }

    void check(collectives::cuda::CudaResult result, const char* call) const;

private:
    void launch_kernel(const char* name, ops::cuda::Geometry geometry, void** parameters);
    [[nodiscard]] collectives::cuda::CudaFunction function_of(const char* name);

    collectives::cuda::CudaApi api_;
    int ordinal_;
    std::string name_;
    collectives::cuda::CudaStream stream_ = nullptr;
    collectives::cuda::CudaModule module_ = nullptr;
    std::vector<std::pair<const char*, collectives::cuda::CudaFunction>> functions_;
};

/// Memory on the GPU or pinned memory of the host. Free it only when no work in a stream uses it any more.
class Memory {
public:
    enum class Kind { device, pinned };
    Memory(const Gpu& gpu, Kind kind, std::size_t bytes);
    ~Memory();
    Memory(const Memory&) = delete;
    Memory& operator=(const Memory&) = delete;
    [[nodiscard]] std::byte* data() const { return data_; }

private:
    const Gpu& gpu_;
    Kind kind_;
    std::byte* data_ = nullptr;
};

/// An event in a stream.
class Event {
public:
    enum class Use { order, time };
    Event(const Gpu& gpu, Use use);
    ~Event();
    Event(const Event&) = delete;
    Event& operator=(const Event&) = delete;
    void record(collectives::cuda::CudaStream stream) const;
    void synchronise() const { gpu_.check(gpu_.api().event_synchronize(event_), "cuEventSynchronize"); }
    /// Makes `stream` wait for this event.
    void make_wait(collectives::cuda::CudaStream stream) const;
    /// Returns the time since `begin` in microseconds. Both events must have been reached.
    [[nodiscard]] double microseconds_since(const Event& begin) const;

private:
    const Gpu& gpu_;
    collectives::cuda::CudaEvent event_ = nullptr;
};

/// Describes the values of a tensor: element i is factor * (i mod 7) + offset. The factor and the offset must be so
/// small that all values are below 256. Every type represents such small integers exactly.
struct Values {
    int factor = 1;
    int offset = 0;
};
/// Fills `memory`, which must be the host's, with `values`.
void write_values(std::byte* memory, DType dtype, std::uint64_t count, const Values& values);
/// Returns how many elements in `memory`, which must be the host's, differ from `values`.
[[nodiscard]] std::uint64_t count_wrong(const std::byte* memory, DType dtype, std::uint64_t count,
                                        const Values& values);

/// Returns the quantile q of the numbers; 0.5 is the median.
[[nodiscard]] double quantile(std::vector<double> numbers, double q);

}  // namespace rueda::bench
