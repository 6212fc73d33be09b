// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The Rueda authors
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <span>
#include <string>

#include "base/status.hpp"
#include "collectives/cuda/cuda_api.hpp"
#include "collectives/cuda/ipc/ipc_device.hpp"

/// The records that the members of a process set exchange before they use each other's device memory. All functions
/// are pure.
namespace rueda::collectives::cuda {

/// Each member sends this record twice. The first record (round 0) has the handle of the member's memory. Then the
/// member tries to open the memory of all other members. The second record (round 1) has the result.
struct IpcRecord {
    std::uint32_t member = 0;
    std::uint32_t round = 0;       ///< 0 or 1
    std::uint64_t process = 0;     ///< the random number that identifies the member's process
    std::uint64_t slot_bytes = 0;  ///< the size of a slot
    std::uint64_t token = 0;       ///< the token of the memory (ExportedMemory)
    CudaIpcMemory handle{};
    IpcDevice::Tokens closed{};  ///< tokens of the memory that the member's process closed last
    std::string refusal{};       ///< why this member cannot share memory; empty if it can
};

inline constexpr std::size_t kIpcRecordBytes = 768;
using IpcRecordBytes = std::array<std::byte, kIpcRecordBytes>;
/// The maximum length of a refusal in a record. A longer refusal is cut.
inline constexpr std::size_t kMostIpcRefusal = 240;

[[nodiscard]] IpcRecordBytes write_ipc_record(const IpcRecord& record);
/// Checks and reads the record of `member`. The bytes come from another process. Text is made printable. A handle is
/// only given to the driver, which checks it.
[[nodiscard]] Result<IpcRecord> read_ipc_record(std::span<const std::byte, kIpcRecordBytes> bytes, std::uint32_t member,
                                                std::uint32_t round);

}  // namespace rueda::collectives::cuda
