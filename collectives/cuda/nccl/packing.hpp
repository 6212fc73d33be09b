// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The Rueda authors
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <vector>

#include "collectives/cuda/nccl/calls.hpp"

/// Decides which small tensors of an allreduce are packed. Pure functions.
///
/// A *pack* is scratch memory for tensors that have the same call of NCCL: the same type, reduction and factor. A
/// kernel copies the tensors into the pack, one call of NCCL reduces the whole pack in place, and a kernel copies the
/// results to the outputs. A packed tensor is thus reduced by the same operation as a tensor that is not packed.
///
/// All members make the same decision, because it depends only on the batch without its addresses, and on whether all
/// members have kernels.
namespace rueda::collectives::cuda {

// The model of the costs. No constant was measured with several GPUs; docs/design/0020-gpu.md says where the constants
// come from.

/// The time that one kernel adds to a batch.
inline constexpr std::uint64_t kLaunchNanoseconds = 3000;
/// The time that one more call of NCCL adds to a group.
inline constexpr std::uint64_t kCallNanoseconds = 2000;
/// The memory bandwidth of the slowest GPU that is supported, in bytes per nanosecond: 320 for a T4.
inline constexpr std::uint64_t kBytesPerNanosecond = 320;
/// Packing reads and writes every byte twice.
inline constexpr std::uint64_t kAccessesPerByte = 4;
/// The largest tensor that is packed. Packing saves a call of NCCL, but the tensor must be copied. This size is the
/// largest power of two for which the copies cost less than the call.
inline constexpr std::size_t kMostPackedBytes = std::size_t{128} << 10;
static_assert(kMostPackedBytes * kAccessesPerByte <= kCallNanoseconds * kBytesPerNanosecond);
static_assert(2 * kMostPackedBytes * kAccessesPerByte > kCallNanoseconds * kBytesPerNanosecond);

/// A tensor begins at a multiple of this number of bytes, because the kernels copy 16 bytes at a time.
inline constexpr std::size_t kPackAlignment = 16;
[[nodiscard]] constexpr std::size_t packed_size(std::size_t bytes) {
    return (bytes + kPackAlignment - 1) / kPackAlignment * kPackAlignment;
}

/// The tensors that could be packed together.
struct Pack {
    /// The call that reduces the whole pack. Packs::place() fills in the call's input and output.
    NcclCall call{};
    std::size_t tensors = 0;
    std::size_t bytes = 0;  ///< the sum of packed_size()
    std::size_t next = 0;   ///< the offset in scratch memory of the next tensor
};

/// Whether two calls are equal except for their tensors. If they are, one call can reduce both tensors.
[[nodiscard]] bool are_alike(const NcclCall& one, const NcclCall& other);

/// Returns the time that packing saves minus the time that it costs, in nanoseconds. A pack with only one tensor counts
/// as 0, because its tensor is not packed.
[[nodiscard]] std::int64_t gain_of_packing(const std::vector<Pack>& packs);

/// The packs of one batch.
class Packs {
public:
    /// Adds a tensor that has the given call. Tensors without elements and large tensors are left out.
    void add(const NcclCall& call, const Segment& tensor);
    /// Leaves out packs that are not worth their costs. `begin_of(bytes)` returns where in scratch memory a pack of
    /// this size begins.
    template <class BeginOf>
    void place(BeginOf&& begin_of) {
        choose();
        for (Pack& pack : packs_) {
            pack.next = begin_of(pack.bytes);
            pack.call.input = pack.call.output = {nullptr, true, pack.next};
        }
    }
    /// Returns where the tensor lies in scratch memory, or nothing if it is not packed. Call this function for the same
    /// tensors as add(), in any order.
    [[nodiscard]] std::optional<std::size_t> take(const NcclCall& call, const Segment& tensor);
    [[nodiscard]] const std::vector<Pack>& all() const { return packs_; }

private:
    [[nodiscard]] Pack* find(const NcclCall& call);
    void choose();

    std::vector<Pack> packs_;
};

}  // namespace rueda::collectives::cuda
