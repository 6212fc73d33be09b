// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The Rueda authors
#include "collectives/cuda/staged/staging_plan.hpp"

#include <algorithm>
#include <numeric>
#include <span>

#include "collectives/rows.hpp"

namespace rueda::collectives::cuda {
namespace {

/// Each part begins at a cache line, so no two parts share a cache line.
constexpr std::size_t kPartAlignment = 64;

std::size_t padded(std::size_t bytes) { return (bytes + kPartAlignment - 1) / kPartAlignment * kPartAlignment; }

std::byte* advanced(std::byte* address, std::size_t offset) { return address == nullptr ? nullptr : address + offset; }

/// Copies only read the input, so the cast that removes const is harmless.
std::byte* device_input_of(const Segment& segment) { return const_cast<std::byte*>(segment.input); }

std::uint64_t sum_of(std::span<const std::int64_t> rows) {
    return static_cast<std::uint64_t>(std::accumulate(rows.begin(), rows.end(), std::int64_t{0}));
}

class StagingPlanner {
public:
    StagingPlanner(const DeviceBatch& batch, std::uint32_t member, std::uint32_t members, std::size_t most_bytes,
                   StagingPlan& plan)
        : batch_(batch), member_(member), members_(members), most_bytes_(most_bytes), plan_(plan) {}

    Status plan();

private:
    void plan_elements();
    void plan_elements_of(std::size_t tensor, std::uint64_t most);
    [[nodiscard]] StagedPart part_of(std::size_t tensor, std::uint64_t first, std::uint64_t count) const;
    Status plan_rows();
    Status bytes_of_rows(std::size_t& input, std::size_t& output) const;
    void add(StagedPart part, bool in_new_piece);
    [[nodiscard]] Status short_list(const char* list) const {
        return failure(ErrorCode::internal, "the {} of a batch ({}) have too few elements for {} members", list,
                       name_of(batch_.operation), members_);
    }

    const DeviceBatch& batch_;
    const std::uint32_t member_;
    const std::uint32_t members_;
    const std::size_t most_bytes_;
    StagingPlan& plan_;
};

Status StagingPlanner::plan() {
    switch (batch_.operation) {
        case Operation::allreduce:
        case Operation::broadcast:
        case Operation::reduce:
            plan_elements();
            return {};
        case Operation::allgather:
        case Operation::reducescatter:
        case Operation::alltoall:
        case Operation::gather:
        case Operation::scatter:
            return plan_rows();
        case Operation::barrier:
        case Operation::join:
        case Operation::group:
            break;
    }
    return failure(ErrorCode::internal, "the operation {} moves no tensors on GPUs", name_of(batch_.operation));
}

/// Adds the part to the last piece, or to a new one. A piece becomes one batch of the CPU's communicator. Only an
/// allreduce may have several tensors in a batch, and such a batch must not mix Adasum with other reductions.
void StagingPlanner::add(StagedPart part, bool in_new_piece) {
    if (in_new_piece || plan_.pieces.empty()) {
        plan_.pieces.push_back({.first = plan_.parts.size()});
    }
    StagedPiece& piece = plan_.pieces.back();
    part.input_offset += piece.bytes;
    part.output_offset += piece.bytes;
    piece.bytes = padded(std::max(part.input_offset + part.input_bytes, part.output_offset + part.output_bytes));
    ++piece.parts;
    plan_.parts.push_back(part);
}

void StagingPlanner::plan_elements() {
    for (std::size_t tensor = 0; tensor < batch_.segments.size(); ++tensor) {
        const Segment& segment = batch_.segments[tensor];
        if (segment.count == 0) {
            continue;
        }
        if (batch_.operation == Operation::allreduce && segment.reduce_op == ReduceOp::adasum) {
            add(part_of(tensor, 0, segment.count), /*in_new_piece=*/true);
            continue;
        }
        plan_elements_of(tensor, std::max<std::uint64_t>(most_bytes_ / size_of(segment.dtype), 1));
    }
}

/// Divides a tensor into parts of at most `most` elements. A tensor that fits into one piece is not divided.
void StagingPlanner::plan_elements_of(std::size_t tensor, std::uint64_t most) {
    const Segment& segment = batch_.segments[tensor];
    for (std::uint64_t first = 0; first < segment.count;) {
        const std::uint64_t count = std::min(segment.count - first, most);
        const bool follows_adasum = !plan_.parts.empty() && plan_.parts.back().segment.reduce_op == ReduceOp::adasum;
        const bool is_full =
            plan_.pieces.empty() || plan_.pieces.back().bytes + count * size_of(segment.dtype) > most_bytes_;
        add(part_of(tensor, first, count), is_full || follows_adasum || batch_.operation != Operation::allreduce);
        first += count;
    }
}

/// Returns the part for a range of a tensor. The CPU works in place: the part has one copy in each direction, and its
/// input and its output use the same memory.
StagedPart StagingPlanner::part_of(std::size_t tensor, std::uint64_t first, std::uint64_t count) const {
    const Segment& segment = batch_.segments[tensor];
    const bool is_root = member_ == segment.root;
    std::byte* const input = device_input_of(segment);
    std::byte* output = segment.output;
    StagedPart part{.segment = segment, .tensor = tensor};
    part.segment.count = count;
    part.input_bytes = part.output_bytes = part.segment.bytes();
    const std::size_t offset = first * size_of(segment.dtype);
    switch (batch_.operation) {
        case Operation::broadcast:
            output = output == nullptr ? input : output;
            part.device_input = is_root ? input : nullptr;
            part.device_output = is_root && output == input ? nullptr : output;
            part.has_input = part.has_output = true;
            break;
        case Operation::reduce:
            part.device_input = input;
            part.device_output = is_root ? output : nullptr;
            part.has_input = true;
            part.has_output = is_root;
            break;
        default:  // allreduce; after join(), a member has no input and no output
            part.device_input = input;
            part.device_output = output;
            part.has_input = input != nullptr;
            part.has_output = output != nullptr;
            break;
    }
    part.device_input = advanced(part.device_input, offset);
    part.device_output = advanced(part.device_output, offset);
    return part;
}

/// Plans an operation that moves rows: one tensor in one piece, whose input lies before its output in the block.
Status StagingPlanner::plan_rows() {
    const Segment& segment = batch_.segments[0];
    StagedPart part{.segment = segment};
    RUEDA_RETURN_IF_FAILED(bytes_of_rows(part.input_bytes, part.output_bytes));
    part.has_input = true;
    part.has_output = segment.output != nullptr || part.output_bytes == 0;
    part.output_bytes = segment.output != nullptr ? part.output_bytes : 0;
    part.output_offset = padded(part.input_bytes);
    part.device_input = part.input_bytes > 0 ? device_input_of(segment) : nullptr;
    part.device_output = part.output_bytes > 0 ? segment.output : nullptr;
    add(part, /*in_new_piece=*/true);
    return {};
}

Status StagingPlanner::bytes_of_rows(std::size_t& input, std::size_t& output) const {
    const std::uint64_t row_bytes = batch_.segments[0].bytes();
    if (batch_.operation == Operation::allgather || batch_.operation == Operation::reducescatter) {
        if (batch_.rows.size() < members_) {
            return short_list("rows");
        }
        const std::int64_t own = batch_.rows[member_];
        input = static_cast<std::uint64_t>(own) * row_bytes;
        output = batch_.operation == Operation::allgather
                     ? sum_of(batch_.rows.first(members_)) * row_bytes
                     : static_cast<std::uint64_t>(rows_of_member(own, member_, members_).count) * row_bytes;
        return {};
    }
    if (batch_.splits.size() < std::size_t{2} * members_) {
        return short_list("splits");
    }
    input = sum_of(batch_.splits.first(members_)) * row_bytes;
    output = sum_of(batch_.splits.subspan(members_, members_)) * row_bytes;
    return {};
}

}  // namespace

Status plan_staging(const DeviceBatch& batch, std::uint32_t member, std::uint32_t members, std::size_t most_bytes,
                    StagingPlan& plan) {
    plan.parts.clear();
    plan.pieces.clear();
    return batch.segments.empty() ? Status() : StagingPlanner(batch, member, members, most_bytes, plan).plan();
}

}  // namespace rueda::collectives::cuda
