// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The Rueda authors
#pragma once

#include <atomic>
#include <condition_variable>
#include <deque>
#include <map>
#include <memory>
#include <mutex>
#include <random>
#include <set>
#include <string>
#include <thread>
#include <unordered_map>
#include <unordered_set>
#include <vector>

#include "tests/support/gpu_stand_in/control.hpp"
#include "tests/support/gpu_stand_in/cuda/clock.hpp"
#include "tests/support/gpu_stand_in/cuda/operation.hpp"

namespace rueda::tests::gpu {

using collectives::cuda::CudaContext;
using collectives::cuda::CudaDevice;
using collectives::cuda::CudaFunction;
using collectives::cuda::CudaModule;

struct Device;
class Memory;

/// A queue of operations that a device executes one after the other.
struct Stream {
    Device* device = nullptr;
    bool is_legacy = false;   ///< whether this is the legacy default stream of the device's context
    bool is_blocking = true;  ///< whether this stream and the legacy default stream wait for each other's work
    /// whether the program has destroyed the stream; the object remains until its work has ended
    bool is_destroyed = false;
    unsigned number = 0;  ///< for texts
    Actor actor = 0;
    Clock clock{};
    std::deque<std::unique_ptr<Operation>> queue{};
    CompletionPtr last{};     ///< the completion of the operation that was submitted last
    bool is_running = false;  ///< true while the device's thread executes the first operation of the queue
    /// number of calls of NCCL that are in progress and have not yet launched their kernels in this stream
    unsigned nccl_calls = 0;
    int capture_status = 0;
    int capture_mode = 0;
    std::thread::id capture_thread{};
};

struct Event {
    Device* device = nullptr;
    unsigned flags = 0;
    CompletionPtr recorded{};  ///< null: never recorded
    bool is_captured = false;  ///< true if the event was last recorded in a capturing stream
    int capture_mode = 0;
    std::thread::id capture_thread{};
    std::shared_ptr<class SharedEvent> shared{};  ///< for events between processes
};

/// A simulated device with its primary context and the thread that executes its work.
struct Device {
    int ordinal = 0;
    unsigned retained = 0;
    bool is_held = false;
    CudaResult error = 0;   ///< sticky
    std::set<int> peers{};  ///< the devices to which the context has enabled peer access
    Stream* legacy = nullptr;
    std::vector<std::unique_ptr<Stream>> streams{};
    unsigned nccl_kernels = 0;  ///< the number of NCCL's kernels that run now
    /// The operations of NCCL that were called but are not in their streams yet: a group has not ended, or a call on a
    /// non-blocking communicator is in progress.
    struct NcclLaunches {
        unsigned count = 0;
        std::thread::id thread{};      ///< the thread that called the last of these operations
        const void* region = nullptr;  ///< the shared memory of the last operation's communicator
    } nccl_launches{};
    std::mt19937_64 random{};
    std::thread thread{};
};

struct Settings {
    std::chrono::microseconds delays{200};  ///< GPU_STAND_IN_DELAY
    std::vector<std::pair<std::string, std::chrono::microseconds>> label_delays{};
    std::multimap<std::string, std::pair<int, int>> failing_calls{};  ///< function: remaining calls, result
    std::vector<std::pair<int, int>> failing_operations{};            ///< remaining operations, result
    int nccl_version = 22809;                                         ///< GPU_STAND_IN_NCCL_VERSION
    int nccl_progress_calls = 3;
    bool one_nccl_kernel = true;
    bool allocations_wait = false;
    bool pageable_copies_wait = false;
    bool nccl_notices_lost_ranks = false;

    [[nodiscard]] static Settings from_environment();
};

/// The simulated devices of this process, with everything that belongs to them.
///
/// Threads: one mutex protects everything. `changed` is notified when an operation ends or is submitted. Bodies of
/// operations run with `data_mutex` and without `mutex`, so that operations which race by mistake do not race in the
/// sense of C++. A thread that needs both locks takes `data_mutex` first.
class Machine {
public:
    static Machine& instance();

    std::mutex mutex;
    std::mutex data_mutex;
    std::condition_variable changed;

    Settings settings;
    std::vector<std::unique_ptr<Device>> devices;
    std::unordered_set<Event*> events;
    std::unordered_map<std::string, std::unique_ptr<Kernel>> kernels;
    std::unordered_map<Kernel*, std::string> kernel_names;
    std::unordered_set<CudaModule> modules;
    std::unique_ptr<Memory> memory;
    Clock host;  ///< the clock of everything that is ordered before the next step of the host program
    std::mt19937_64 random;
    bool is_initialised = false;
    int process = 0;  ///< the process that initialised the driver
    int contexts_created = 0;
    std::size_t host_waits = 0;
    std::size_t communicators = 0;
    std::map<std::string, std::size_t> calls;
    std::vector<std::string> nccl_operations;
    void (*on_reset)() = nullptr;  ///< NCCL's part forgets its communicators
    /// The number of resets. Each thread remembers the number at the time of its last call. If the numbers differ, the
    /// thread's stack of contexts is from before the last reset.
    std::uint64_t generation = 0;

    // The caller of the following functions holds the mutex.

    void reset(std::unique_lock<std::mutex>& lock, std::uint64_t seed, int device_count);
    void ensure_devices();
    [[nodiscard]] Device* device_of(CudaContext context);
    [[nodiscard]] Stream* find_stream(CudaStream handle, Device& current);
    Stream& add_stream(Device& device);
    void submit(Stream& stream, std::unique_ptr<Operation> operation);
    /// Returns the completions that must be done before the stream is idle.
    [[nodiscard]] std::vector<CompletionPtr> work_of(const Stream& stream) const;
    /// Waits until all of these completions are done, and orders the host program after them.
    void wait(std::unique_lock<std::mutex>& lock, const std::vector<CompletionPtr>& completions);
    /// Waits until the device has no work. Does not order the host program after this work, because a program must not
    /// rely on this wait.
    void wait_for_device(std::unique_lock<std::mutex>& lock, Device& device);
    [[nodiscard]] std::size_t outstanding() const;
    /// Waits until no operation can run any more.
    void settle(std::unique_lock<std::mutex>& lock);
    void break_device(Device& device, CudaResult error);
    [[nodiscard]] std::string describe(const Stream& stream, const std::string& label) const;
    [[nodiscard]] Actor host_actor() const { return actor(0); }
    [[nodiscard]] Actor new_actor() { return actor(++actors_); }
    [[nodiscard]] std::uint64_t choose(std::uint64_t count) { return count == 0 ? 0 : random() % count; }
    void start_threads();

    // The following functions need no mutex.

    void report(const std::string& text);
    [[nodiscard]] std::vector<std::string> violations();
    void clear_violations();

private:
    Machine();
    [[nodiscard]] static Actor actor(std::uint32_t number);
    void execute(Device& device);
    [[nodiscard]] Stream* choose_stream(Device& device, bool& poll_again);
    [[nodiscard]] bool is_ready(Device& device, Operation& operation, bool& poll_again);
    void step(std::unique_lock<std::mutex>& lock, Device& device, Stream& stream);
    [[nodiscard]] bool begin(std::unique_lock<std::mutex>& lock, Device& device, Stream& stream, Operation& operation);
    void finish(Device& device, Stream& stream);
    [[nodiscard]] bool can_run(const Device& device, const Stream& stream) const;
    [[nodiscard]] bool has_runnable_work() const;
    void order_with_legacy(Stream& stream, Operation& operation);

    bool stop_ = false;
    std::uint32_t actors_ = 0;
    std::mutex violations_mutex_;
    std::vector<std::string> violations_;
};

/// Whether this thread executes a host function or the body of a kernel.
extern thread_local bool in_host_function;

}  // namespace rueda::tests::gpu
