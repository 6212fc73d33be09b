// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The Rueda authors
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "base/status.hpp"
#include "collectives/cuda/cuda_device.hpp"
#include "collectives/cuda/nccl/nccl_failure.hpp"
#include "collectives/cuda/nccl_api.hpp"
#include "collectives/cuda/plugin_interface.hpp"

namespace rueda::collectives::cuda {

/// The memory that one communicator of NCCL has registered. NCCL reads and writes registered memory without a copy of
/// its own.
///
/// NCCL demands that either all members pass registered memory to a function, or none (NCCL User Guide, "User Buffer
/// Registration"). Each member therefore knows, before a batch, whether all members use memory of NCCL for a tensor
/// (TensorMemory::use). When all members use memory of NCCL for the first time, each member registers its memory. When
/// only some members do so (NcclMemory::some), the communicator registers no memory from then on. All members make this
/// change at the same batch, because TensorMemory::use has the same value on all of them.
///
/// Threads: one at a time, and only while NCCL does not work on a call of the communicator.
class Registrations {
public:
    Registrations(Device& device, FailedMember where) : device_(device), where_(where) {}

    void set_communicator(const NcclApi& nccl, NcclCommunicator communicator);
    /// Registers the memory that the batch needs. Call this before the batch's calls of NCCL. Returns false if the
    /// device still works with memory whose registration must end first. In that case, call this function again later.
    [[nodiscard]] Result<bool> prepare(std::span<const TensorMemory> memory);
    /// Records that a batch was launched. `end` is the event after the batch's work. It also comes after the work of
    /// all earlier batches.
    void launched(const DeviceEventPtr& end) { last_end_ = end; }
    /// Ends all registrations if the device has done all batches. If the device has not, NCCL ends the registrations
    /// together with the communicator.
    void end() noexcept;
    /// Keeps the memory for ever. Call this if NCCL may still use the memory after the communicator has ended.
    void keep_for_ever() noexcept;

private:
    struct Registered {
        DeviceMemoryPtr memory;
        void* handle = nullptr;  ///< null if NCCL's settings exclude registrations
    };
    [[nodiscard]] Result<bool> is_work_done();
    [[nodiscard]] Status add(const DeviceMemoryPtr& memory);
    /// Ends the registrations of memory that the program has given back, or all registrations.
    enum class Which : std::uint8_t { given_back, all };
    [[nodiscard]] Status remove(Which which);

    Device& device_;
    const FailedMember where_;
    const NcclApi* nccl_ = nullptr;
    NcclCommunicator communicator_ = nullptr;
    bool is_off_ = false;  // the members disagreed once
    std::vector<Registered> registered_;
    DeviceEventPtr last_end_;
};

}  // namespace rueda::collectives::cuda
