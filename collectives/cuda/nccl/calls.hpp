// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The Rueda authors
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <vector>

#include "base/status.hpp"
#include "collectives/cuda/nccl_api.hpp"
#include "collectives/cuda/plugin_interface.hpp"

/// Translates a batch into calls of NCCL. Pure functions, which never read tensors.
///
/// The words: a *call* is one function of NCCL, for one tensor, for one pack of small tensors, or for one message to or
/// from one member. All calls of a batch are in one group, so NCCL runs them together. Calls of zero bytes are left
/// out. All members leave out the same calls.
namespace rueda::collectives::cuda {

/// A place in device memory: an address, or an offset in scratch memory.
struct Place {
    std::byte* address = nullptr;
    bool is_scratch = false;
    std::size_t offset = 0;  ///< the offset in scratch memory, if `is_scratch` is true
};

struct NcclCall {
    enum class Kind : std::uint8_t { all_reduce, broadcast, reduce, all_gather, reduce_scatter, send, receive };
    Kind kind = Kind::all_reduce;
    NcclType type = kNcclUint8;
    NcclReduction reduction = kNcclSum;
    int factor = -1;  ///< the index of the NcclFactor to use instead of `reduction`; −1 if there is none
    int peer = -1;    ///< the root of a broadcast or a reduce, or the other member of a send or a receive
    std::size_t count = 0;
    Place input{};
    Place output{};
};

/// A factor with which NCCL multiplies every input before it adds the inputs. NCCL reads the factor as a number of the
/// tensors' type.
struct NcclFactor {
    NcclType type = kNcclFloat32;
    std::uint64_t bits = 0;  ///< the factor in the type `type`, in the first bytes of this number
    friend bool operator==(const NcclFactor&, const NcclFactor&) = default;
};

/// Scratch memory that is filled with neutral elements (for example zeros for a sum), as the contribution of a member
/// that has called join().
struct NeutralFill {
    std::size_t offset = 0;
    std::size_t bytes = 0;
    DType dtype = DType::float32;
    ReduceOp op = ReduceOp::sum;
};

/// The part of an exchange that this rank sends to itself. A copy in the stream moves it, without NCCL.
struct OwnCopy {
    std::byte* from = nullptr;
    std::byte* to = nullptr;
    std::size_t bytes = 0;
};

/// A small tensor that kernels copy into scratch memory before NCCL's calls, and out of it after them. A member that
/// has called join() has no tensor, and is not in the list.
struct PackedTensor {
    const std::byte* input = nullptr;
    std::byte* output = nullptr;
    std::size_t offset = 0;  ///< where the tensor begins in scratch memory
    std::size_t bytes = 0;
};

/// Whether small tensors are packed. All members of a process set must have the same value.
enum class Packing : std::uint8_t { off, on };

struct CallPlan {
    std::vector<NcclCall> calls;
    std::vector<NcclFactor> factors;
    std::vector<PackedTensor> packed;
    std::vector<NeutralFill> fills;
    std::vector<OwnCopy> copies;
    std::size_t scratch_bytes = 0;

    void clear();
};

/// How NCCL performs a reduction.
struct NcclReductionPlan {
    NcclType type = kNcclFloat32;
    NcclReduction reduction = kNcclSum;
    std::optional<NcclFactor> factor{};
};

/// Chooses NCCL's reduction. Returns Unsupported if NCCL has none. The result depends only on values that are equal on
/// all members.
///
/// - For a sum with factors, NCCL multiplies every input by prescale * postscale, in the tensors' type, and then adds.
/// - For an average, the factor is prescale * postscale / (members − uncounted). Integers have no factor: NCCL adds
///   them, with wrap-around on overflow, and then divides the sum.
/// - min, max and product have no factors. For bool, whose values must be 0 or 1, product is min.
/// - float16 and bfloat16 are rounded after every addition.
/// - 8-bit floats and 16-bit integers have no reduction.
[[nodiscard]] Result<NcclReductionPlan> plan_reduction(const Segment& segment, std::uint32_t members);

/// Fills `plan`. `member` is this rank's number among `members`. With packing, small tensors of an allreduce that have
/// the same call share one call (packing.hpp). Returns Unsupported, on all members, for an operation that NCCL cannot
/// do. Returns Internal if the batch's lists are too short.
[[nodiscard]] Status plan_calls(const DeviceBatch& batch, std::uint32_t member, std::uint32_t members, Packing packing,
                                CallPlan& plan);

}  // namespace rueda::collectives::cuda
