// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The Rueda authors
#pragma once

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include "collectives/cuda/cuda_api.hpp"
#include "collectives/cuda/nccl_api.hpp"

/// The functions with which a test controls the stand-in for NVIDIA's driver and NCCL. README.md explains what the
/// stand-in models.
///
/// Threads: any thread may call any function, except for reset().
namespace rueda::tests::gpu {

using collectives::cuda::CudaEvent;
using collectives::cuda::CudaResult;
using collectives::cuda::CudaStream;
using collectives::cuda::DeviceAddress;
using collectives::cuda::NcclCommunicator;
using collectives::cuda::NcclResult;

/// Begins anew: drops everything that earlier calls left (such as queued work, memory, injected failures and
/// violations), and makes `devices` simulated devices (1 to 8). No other thread may be inside the driver or NCCL. Real
/// programs have no such function: errors such as an illegal address persist until the process ends.
void reset(std::uint64_t seed, int devices);

/// Returns the misuses that were found, each as one text. A test asserts that the list is empty. A race is found only
/// when the second of the two operations runs. So this function first waits until no more work can run (see settle()).
[[nodiscard]] std::vector<std::string> violations();
void clear_violations();
/// Waits until no operation can run any more. Some operations may remain: those that wait for other ranks or processes,
/// those behind them in a stream, and those on a device that is held back.
void settle();

// Delays and the order of execution.

/// Delays the start of each operation by a random time from 0 to `most`. The default is 200 microseconds.
void set_delays(std::chrono::microseconds most);
/// Delays operations by `delay` in addition, if their label contains `part`. Labels are the driver's and NCCL's names
/// of functions ("cuMemcpyAsync", "ncclAllReduce") and the names of kernels.
void delay_operations(const std::string& part, std::chrono::microseconds delay);
/// Whether an allocation of device memory or of pinned memory waits until the device has no work. The real driver may
/// wait. A program with the following mistake then hangs. While a running kernel waits for another rank, the program
/// allocates memory before it starts the kernel of that rank. The default is false.
void set_allocations_wait(bool wait);
/// Whether a copy from pageable memory waits for its stream before it reads the memory. The real driver may do so. The
/// default is false.
void set_pageable_copies_wait(bool wait);
/// Holds back all work of a device until release_device().
void hold_device(int device);
void release_device(int device);

// Failures.

/// Makes one later call of a function fail: the call returns `result` and has no effect. If `nth` is 1, the next call
/// fails. The function belongs to the driver or to NCCL, for example "cuEventRecord".
void fail_call(const std::string& function, int nth, int result);
/// Makes one later operation of NCCL fail. If `nth` is 1, the next operation that NCCL starts fails. `result` becomes
/// the communicator's asynchronous error, and the operation's kernel waits until the communicator is aborted.
void fail_operation(int nth, NcclResult result);
/// Puts the device into the sticky state `error`, as an illegal address does.
void break_device(int device, CudaResult error);

// The state of the stand-in.

/// the number of primary contexts that became active since reset()
[[nodiscard]] int contexts_created();
[[nodiscard]] std::size_t outstanding();                       ///< operations that have not ended
[[nodiscard]] std::size_t calls(const std::string& function);  ///< the number of calls of a function since reset()
/// The number of calls that made the host wait, because the work had not ended: cuStreamSynchronize,
/// cuEventSynchronize, cuMemFree, and copies from or to pageable memory.
[[nodiscard]] std::size_t host_waits();
[[nodiscard]] std::size_t allocated_bytes();  ///< device memory that is allocated and not freed
[[nodiscard]] std::size_t live_events();
[[nodiscard]] std::size_t live_streams();  ///< without the legacy default streams

// Memory.

/// Declares that the test's program itself reads or writes device memory or pinned memory at the address. The stand-in
/// reports this access as a race, unless a synchronisation or a successful query orders all conflicting operations
/// before it. After this call, the program may access the memory directly.
void host_access(DeviceAddress address, std::size_t bytes, bool write);
/// Declares an access like the function above, but takes a pointer, for example to pinned memory.
inline void host_access(const void* address, std::size_t bytes, bool write) {
    host_access(static_cast<DeviceAddress>(reinterpret_cast<std::uintptr_t>(address)), bytes, write);
}

/// Whether the driver knows the address: as memory of a device, or as pinned memory.
[[nodiscard]] bool is_known(const void* address);

// Streams that capture a graph. The work that is put into a capturing stream does not run.

[[nodiscard]] CudaResult begin_capture(CudaStream stream, int mode);
/// Returns the error of a capture that was invalidated.
[[nodiscard]] CudaResult end_capture(CudaStream stream);

// Kernels.

struct Grid {
    unsigned x = 1;
    unsigned y = 1;
    unsigned z = 1;
};
/// A range of memory that a kernel reads or writes.
struct Range {
    DeviceAddress address = 0;
    std::size_t bytes = 0;
    bool write = false;
};
/// A kernel, which cuModuleGetFunction finds by its name in every module. `run` and `ranges` get an array of pointers
/// to the arguments, as cuLaunchKernel does.
struct Kernel {
    /// The size of each argument. cuLaunchKernel copies the arguments during the call.
    std::vector<std::size_t> argument_bytes;
    std::function<void(Grid grid, Grid block, void** arguments)> run;
    /// Lists the memory that the kernel accesses. The stand-in calls this function just before the kernel runs, so the
    /// function may read tables in device memory.
    std::function<std::vector<Range>(Grid grid, Grid block, void** arguments)> ranges;
};
void register_kernel(const std::string& name, Kernel kernel);
/// The sizes of a kernel's parameters.
template <typename... Parameters>
[[nodiscard]] std::vector<std::size_t> argument_bytes() {
    return {sizeof(Parameters)...};
}

// NCCL.

/// The version that ncclGetVersion() returns; the default is 22809.
void set_nccl_version(int version);
/// Calls on a non-blocking communicator stay "in progress" for a random number of calls of ncclCommGetAsyncError(),
/// from 0 to `most`. The default is 3.
void set_nccl_progress_calls(int most);
/// Whether at most one of NCCL's kernels runs on a device at a time. If so, two communicators of the same devices
/// deadlock if the devices start their kernels in different orders. NCCL does not promise that more than one kernel
/// runs at a time. The default is true.
void set_one_nccl_kernel_at_a_time(bool one);
/// Whether communicators report kNcclRemoteError after the process of another rank ended, or after lose_rank(). The
/// default is false, because the real NCCL does not notice the end of a rank on the same host. If the setting is true,
/// communicators also report that another rank has aborted.
void set_nccl_notices_lost_ranks(bool notices);
/// Acts as if the process of this communicator's rank had ended. Its kernels continue, but the other ranks may notice
/// the end.
void lose_rank(NcclCommunicator communicator);
[[nodiscard]] std::size_t live_communicators();
/// The operations of NCCL that this process has begun to execute since reset(), in order, as "ncclAllReduce 5 float32".
[[nodiscard]] std::vector<std::string> nccl_operations();

}  // namespace rueda::tests::gpu
