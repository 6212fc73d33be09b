// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The Rueda authors
#pragma once

#include <atomic>
#include <condition_variable>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <vector>

#include "tests/support/gpu_stand_in/cuda/machine.hpp"
#include "tests/support/gpu_stand_in/nccl/arithmetic.hpp"
#include "tests/support/gpu_stand_in/nccl/region.hpp"

namespace rueda::tests::gpu {

/// One rank of a communicator.
///
/// Threads: Machine::mutex protects everything, apart from `aborted` and the region.
struct Communicator {
    struct Factored {
        NcclType type;
        Factor factor;
    };

    std::shared_ptr<Region> region{};
    int rank = 0;
    int ranks = 0;
    Device* device = nullptr;
    bool is_blocking = true;
    bool is_connected = false;
    bool is_finalized = false;
    /// Tells the waiting kernels to end. An abort stores this flag with release; the kernels load it with acquire.
    std::atomic<bool> aborted{false};
    NcclResult error = 0;  ///< asynchronous
    std::string last_error{};
    int inside = 0;  ///< the number of threads that wait inside a call

    // The call that is in progress on a non-blocking communicator.
    int progress_calls = 0;          ///< how many more calls of ncclCommGetAsyncError() return kNcclInProgress
    std::function<void()> launch{};  ///< launches the operations when the call in progress ends

    std::uint64_t collectives = 0;  ///< the number of the last collective operation
    std::map<int, std::uint64_t> sends{};
    std::map<int, std::uint64_t> receives{};
    CompletionPtr last_kernel{};
    std::vector<std::optional<Factored>> reductions{};
    /// Memory that ncclCommRegister() has registered, by its handle.
    struct Registered {
        DeviceAddress begin = 0;
        std::size_t bytes = 0;
    };
    std::map<void*, Registered> registered{};
    std::uintptr_t registrations = 0;  ///< the last handle

    [[nodiscard]] bool is_in_progress() const { return !is_connected || launch != nullptr || progress_calls > 0; }
    [[nodiscard]] Region::Member& own() const { return region->members[static_cast<std::size_t>(rank)]; }
    [[nodiscard]] Region::Member& member(int other) const { return region->members[static_cast<std::size_t>(other)]; }
    [[nodiscard]] Box& pair(int from, int to) const {
        return region->pairs[static_cast<std::size_t>(from)][static_cast<std::size_t>(to)];
    }

    /// Returns the registered memory that contains the address; null if there is none.
    [[nodiscard]] const Registered* find_registered(DeviceAddress address) const;
    /// Tells the other ranks that this rank has joined. Returns an error if another rank has the same number.
    [[nodiscard]] NcclResult join();
    /// Connects the communicator if all ranks have joined. Sets the error if two of the ranks must not be in one
    /// communicator.
    void try_to_connect();
    /// Whether all kernels of this rank have ended and the other ranks have read everything that this rank sent.
    [[nodiscard]] bool is_flushed() const;
    /// If the test has called set_nccl_notices_lost_ranks(true), checks whether another rank has ended or aborted. If
    /// so, sets the error.
    void look_for_lost_ranks();
    void set_error(NcclResult result, std::string text);
    ~Communicator();
};
using CommunicatorPtr = std::shared_ptr<Communicator>;

/// The live communicators by their handles. Machine::mutex protects this map.
std::map<collectives::cuda::NcclCommunicator, CommunicatorPtr>& communicators();

/// One call of a function of NCCL. Corresponds to Call, which is for the driver.
class NcclCall {
public:
    explicit NcclCall(const char* function);
    [[nodiscard]] NcclResult error() const { return error_; }
    [[nodiscard]] Machine& machine() { return machine_; }
    [[nodiscard]] std::unique_lock<std::mutex>& lock() { return lock_; }
    /// Returns the live communicator, or null after a report.
    [[nodiscard]] CommunicatorPtr find(collectives::cuda::NcclCommunicator handle);
    /// Returns the communicator if it can take a new operation. Otherwise sets error().
    [[nodiscard]] CommunicatorPtr find_ready(collectives::cuda::NcclCommunicator handle);
    /// Waits until `is_over` returns true. Meanwhile other threads and processes advance the communicator, and the
    /// caller counts as a thread inside NCCL.
    void wait(Communicator& communicator, const std::function<bool()>& is_over);
    void report(const std::string& what);

private:
    const char* function_;
    Machine& machine_ = Machine::instance();
    std::unique_lock<std::mutex> lock_{machine_.mutex};
    NcclResult error_ = 0;
};

}  // namespace rueda::tests::gpu
