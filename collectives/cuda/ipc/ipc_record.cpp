// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The Rueda authors
#include "collectives/cuda/ipc/ipc_record.hpp"

#include <algorithm>
#include <cstring>
#include <type_traits>

#include "base/text.hpp"

namespace rueda::collectives::cuda {
namespace {

constexpr std::uint32_t kIpcMagic = 0x69706331;

/// The bytes of a record. All fields have fixed widths, and there is no padding.
struct IpcRecordLayout {
    std::uint32_t magic;  // identifies this layout
    std::uint32_t member;
    std::uint32_t round;
    std::uint32_t refusal_bytes;
    std::uint64_t process;
    std::uint64_t slot_bytes;
    std::uint64_t token;
    CudaIpcMemory handle;
    IpcDevice::Tokens closed;
    std::array<char, kMostIpcRefusal> refusal;
    std::array<std::byte, 40> reserved;
};
static_assert(sizeof(IpcRecordLayout) == kIpcRecordBytes);
static_assert(std::is_trivially_copyable_v<IpcRecordLayout> &&
              std::has_unique_object_representations_v<IpcRecordLayout>);

}  // namespace

IpcRecordBytes write_ipc_record(const IpcRecord& record) {
    IpcRecordLayout layout{};
    layout.magic = kIpcMagic;
    layout.member = record.member;
    layout.round = record.round;
    layout.refusal_bytes = static_cast<std::uint32_t>(std::min(record.refusal.size(), kMostIpcRefusal));
    layout.process = record.process;
    layout.slot_bytes = record.slot_bytes;
    layout.token = record.token;
    layout.handle = record.handle;
    layout.closed = record.closed;
    std::memcpy(layout.refusal.data(), record.refusal.data(), layout.refusal_bytes);
    IpcRecordBytes bytes;
    std::memcpy(bytes.data(), &layout, sizeof(layout));
    return bytes;
}

Result<IpcRecord> read_ipc_record(std::span<const std::byte, kIpcRecordBytes> bytes, std::uint32_t member,
                                  std::uint32_t round) {
    IpcRecordLayout layout{};
    std::memcpy(&layout, bytes.data(), sizeof(layout));
    if (layout.magic != kIpcMagic || layout.member != member || layout.round != round ||
        layout.refusal_bytes > kMostIpcRefusal) {
        return failure(
            ErrorCode::internal,
            "the record of member {} about its CUDA IPC memory has member {}, round {} and {} bytes of text; "
            "expected round {} and at most {} bytes",
            member, layout.member, layout.round, layout.refusal_bytes, round, kMostIpcRefusal);
    }
    return IpcRecord{.member = member,
                     .round = round,
                     .process = layout.process,
                     .slot_bytes = layout.slot_bytes,
                     .token = layout.token,
                     .handle = layout.handle,
                     .closed = layout.closed,
                     .refusal = base::printable({layout.refusal.data(), layout.refusal_bytes})};
}

}  // namespace rueda::collectives::cuda
