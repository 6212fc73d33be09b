// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The Rueda authors
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <string_view>

#include "base/status.hpp"
#include "collectives/cuda/nccl_api.hpp"
#include "collectives/cuda/plugin_interface.hpp"

/// The members of a process set send each other offers before they connect. From all offers, every member decides
/// whether NCCL moves their tensors, or whether the tensors move through the host's memory. Pure functions.
namespace rueda::collectives::cuda {

/// The content of the offer of one member, as texts and numbers.
struct Participant {
    std::uint32_t member = 0;
    std::uint32_t members = 1;
    std::int32_t device = -1;       ///< the device's number in the member's process
    std::int32_t nccl_version = 0;  ///< 22809 is NCCL 2.28.9
    std::uint64_t host = 0;         ///< the same number for all processes of a host, and for no other host
    std::uint64_t process = 0;      ///< a random number of the process
    bool shares_device = false;     ///< NCCL_MULTI_RANK_GPU_ENABLE=1 is set
    bool has_kernels = false;       ///< the device has Rueda's kernels
    bool has_id = false;            ///< `id` has a value; this is so only for the first member
    CudaUuid uuid{};                ///< identifies the device, or the part of a divided device
    NcclUniqueId id{};
    DevicePath path = DevicePath::automatic;  ///< the member's setting RUEDA_GPU_PATH; with the value `host`, the
                                              ///< member does not use NCCL
    bool has_other_sets = false;              ///< whether the member uses NCCL in other process sets, or may use it
                                              ///< there later
    /// Another process set in which the member uses NCCL without a launch order (NcclSets); −1 if there is none.
    std::int32_t unordered_set = -1;
    std::string refusal{};  ///< why the member cannot use NCCL; empty if it can
};

/// How the members move tensors.
struct Decision {
    bool uses_nccl = false;
    std::int32_t nccl_version = 0;  ///< the version that all members have, if NCCL is used
    bool shares_devices = false;    ///< whether NCCL connects members that share a device (NCCL calls this
                                    ///< experimental)
    bool has_order = false;         ///< whether the set's batches have a place in the launch order of all process sets
    bool uses_ipc = false;          ///< whether large tensors move through device memory that the members share by CUDA
                                    ///< IPC
    NcclUniqueId id{};              ///< the identifier of NCCL's communicator
    std::string reason{};           ///< why NCCL is not used, and what to do for more speed
    std::string ipc_refusal{};      ///< why CUDA IPC is not used although the setting allows it; empty if there is no
                                    ///< such reason
    /// True if NCCL is not used only because another process set of a member has no launch order yet. The members then
    /// exchange offers again later.
    bool may_change = false;
};

/// The maximum number of members that share device memory by CUDA IPC. One kernel can read the memory of this number of
/// members.
inline constexpr std::size_t kMostIpcMembers = 16;

/// The maximum length of a refusal in an offer. A longer refusal is cut.
inline constexpr std::size_t kMostRefusal = 256;

[[nodiscard]] DeviceCommunicator::Offer write_offer(const Participant& participant);
/// Checks and reads the offer of member `member` of `members`. The bytes come from another process. Text is made
/// printable.
[[nodiscard]] Result<Participant> read_offer(const DeviceCommunicator::Offer& offer, std::uint32_t member,
                                             std::uint32_t members);

/// Decides from all members' offers how their tensors move. All members call this function with the same bytes, so all
/// return the same result, and an error has the same text. `ranks` are the members' ranks in the job, for texts.
/// Without `ranks`, the texts contain the members' numbers. Returns an error if the members' settings differ, or if the
/// setting allows only NCCL and NCCL cannot connect the members.
[[nodiscard]] Result<Decision> decide(std::span<const DeviceCommunicator::Offer> offers,
                                      std::span<const std::int32_t> ranks = {});

/// Whether the devices of all members have Rueda's kernels. Only then do the members plan batches with kernels. As with
/// decide(), all members call this function with the same bytes and get the same result.
[[nodiscard]] bool all_have_kernels(std::span<const DeviceCommunicator::Offer> offers);

/// For example "GPU-8932f937-d72c-4106-c12f-20bd9faed9f6", as nvidia-smi -L prints it.
[[nodiscard]] std::string name_of_uuid(const CudaUuid& uuid);

}  // namespace rueda::collectives::cuda
