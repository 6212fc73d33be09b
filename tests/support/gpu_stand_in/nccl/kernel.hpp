// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The Rueda authors
#pragma once

#include <cstddef>
#include <memory>
#include <string>
#include <vector>

#include "tests/support/gpu_stand_in/cuda/operation.hpp"
#include "tests/support/gpu_stand_in/nccl/communicator.hpp"

namespace rueda::tests::gpu {

enum class NcclKind : std::int32_t { all_reduce, broadcast, reduce, all_gather, reduce_scatter, send, receive };
[[nodiscard]] const char* function_name(NcclKind kind);

/// One operation as the program called it.
struct NcclOperation {
    NcclKind kind = NcclKind::all_reduce;
    DeviceAddress input = 0;
    DeviceAddress output = 0;
    std::size_t count = 0;  ///< the number that NCCL's function got as its argument `count`
    NcclType type = 0;
    NcclReduction reduction = 0;
    int root = 0;  ///< or the peer
    /// the factor of a premultiplied sum; it is copied, because the program may destroy the reduction after the call
    Factor factor{};
    CommunicatorPtr communicator{};
    Stream* stream = nullptr;
    std::uint64_t registered = 0;  ///< as in OperationHeader

    [[nodiscard]] std::size_t bytes() const { return count * element_bytes(type); }
    [[nodiscard]] std::size_t input_bytes() const;   ///< the bytes that this rank reads
    [[nodiscard]] std::size_t output_bytes() const;  ///< the bytes that this rank writes
    [[nodiscard]] std::string describe() const;
};

/// The part of a kernel that executes one operation. It posts this rank's contribution, waits for the contributions of
/// the other ranks, and calculates this rank's result.
class NcclPart {
public:
    /// `number` is the operation's number, counted from 1, among the operations that must match between the ranks.
    NcclPart(NcclOperation operation, std::uint64_t number) : operation_(std::move(operation)), number_(number) {}
    /// Does what is possible now. Returns whether the operation has ended.
    [[nodiscard]] bool progress();
    [[nodiscard]] const NcclOperation& operation() const { return operation_; }

private:
    [[nodiscard]] bool progress_collective();
    [[nodiscard]] bool progress_receive();
    [[nodiscard]] bool post();
    [[nodiscard]] std::vector<std::byte> contribution() const;
    [[nodiscard]] OperationHeader header() const;
    [[nodiscard]] bool all_have_posted();
    [[nodiscard]] bool calculate();
    [[nodiscard]] bool reduce(std::size_t first, std::size_t count);
    void report_registration(const OperationHeader& other, int rank) const;
    void write(std::size_t offset, const std::vector<std::byte>& bytes) const;

    NcclOperation operation_;
    std::uint64_t number_;
    bool is_posted_ = false;
    bool has_complained_ = false;
    bool is_over_ = false;
};

/// The kernel that executes a group of operations on one communicator. It occupies its stream until it ends.
class NcclKernel final : public Operation {
public:
    /// `previous` is the communicator's kernel before this kernel. NCCL runs the kernels of a communicator one after
    /// another, but does not promise this order. So accesses to memory by different kernels count as unordered.
    NcclKernel(std::string label, CommunicatorPtr communicator, std::vector<NcclPart> parts, CompletionPtr previous)
        : Operation(std::move(label), Kind::nccl),
          communicator_(std::move(communicator)),
          parts_(std::move(parts)),
          previous_(std::move(previous)) {}
    /// The operation fails with `result` instead of running.
    void fail_with(NcclResult result) { failure_ = result; }

    bool may_start() override;
    std::vector<Range> ranges() override;
    bool run() override;
    void drop() override;

private:
    void begin();
    void spoil_outputs();

    CommunicatorPtr communicator_;
    std::vector<NcclPart> parts_;
    CompletionPtr previous_;
    NcclResult failure_ = 0;
    bool has_begun_ = false;
};

}  // namespace rueda::tests::gpu
