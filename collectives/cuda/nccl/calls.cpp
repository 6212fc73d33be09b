// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The Rueda authors
#include "collectives/cuda/nccl/calls.hpp"

#include <algorithm>
#include <numeric>

#include "collectives/cuda/nccl/packing.hpp"
#include "collectives/rows.hpp"

namespace rueda::collectives::cuda {
namespace {

using Kind = NcclCall::Kind;

/// Each part of the scratch memory begins at a multiple of this number of bytes.
constexpr std::size_t kScratchAlignment = 512;

std::byte* moved(std::byte* address, std::size_t offset) { return address == nullptr ? nullptr : address + offset; }

/// Fills one plan. NCCL takes inputs as pointers to constant memory, so the cast that removes const is harmless.
class Planner {
public:
    Planner(const DeviceBatch& batch, std::uint32_t member, std::uint32_t members, Packing packing, CallPlan& plan)
        : batch_(batch), member_(member), members_(members), packing_(packing), plan_(plan) {}

    Status plan();

private:
    [[nodiscard]] static std::byte* input_of(const Segment& segment) { return const_cast<std::byte*>(segment.input); }
    Status plan_allreduces();
    void plan_allreduce(const Segment& segment, NcclCall call);
    void plan_packed(const Segment& segment, std::size_t offset);
    void fill_neutral(const Segment& segment, std::size_t offset, std::size_t bytes);
    void plan_broadcast(const Segment& segment);
    Status plan_reduce(const Segment& segment);
    Status plan_allgather();
    Status plan_reducescatter();
    Status plan_exchange();
    void exchange(std::span<const std::int64_t> to, std::span<const std::int64_t> from);

    void add(NcclCall call) {
        if (call.count > 0) {
            plan_.calls.push_back(call);
        }
    }
    Result<NcclCall> reduction_call(Kind kind, const Segment& segment);
    [[nodiscard]] int factor_index(const NcclFactor& factor);
    Place reserve_scratch(std::size_t bytes);
    [[nodiscard]] Status short_list(const char* list, std::size_t expected) const {
        return failure(ErrorCode::internal, "the {} of a batch ({}) have not {} elements", list,
                       name_of(batch_.operation), expected);
    }

    const DeviceBatch& batch_;
    const std::uint32_t member_;
    const std::uint32_t members_;
    const Packing packing_;
    CallPlan& plan_;
};

Status Planner::plan() {
    switch (batch_.operation) {
        case Operation::allreduce:
            return plan_allreduces();
        case Operation::broadcast:
            for (const Segment& segment : batch_.segments) {
                plan_broadcast(segment);
            }
            return {};
        case Operation::reduce:
            for (const Segment& segment : batch_.segments) {
                RUEDA_RETURN_IF_FAILED(plan_reduce(segment));
            }
            return {};
        case Operation::allgather:
            return plan_allgather();
        case Operation::reducescatter:
            return plan_reducescatter();
        case Operation::alltoall:
        case Operation::gather:
        case Operation::scatter:
            return plan_exchange();
        case Operation::barrier:
        case Operation::join:
        case Operation::group:
            break;
    }
    return failure(ErrorCode::internal, "the operation {} moves no tensors on GPUs", name_of(batch_.operation));
}

int Planner::factor_index(const NcclFactor& factor) {
    const auto found = std::find(plan_.factors.begin(), plan_.factors.end(), factor);
    const auto index = static_cast<int>(found - plan_.factors.begin());
    if (found == plan_.factors.end()) {
        plan_.factors.push_back(factor);
    }
    return index;
}

Place Planner::reserve_scratch(std::size_t bytes) {
    const Place place{nullptr, true, plan_.scratch_bytes};
    plan_.scratch_bytes += (bytes + kScratchAlignment - 1) / kScratchAlignment * kScratchAlignment;
    return place;
}

Result<NcclCall> Planner::reduction_call(Kind kind, const Segment& segment) {
    auto reduction = plan_reduction(segment, members_);
    RUEDA_RETURN_IF_FAILED(reduction.status());
    NcclCall call{.kind = kind, .type = reduction.value().type, .reduction = reduction.value().reduction};
    if (reduction.value().factor) {
        call.factor = factor_index(*reduction.value().factor);
    }
    return call;
}

Status Planner::plan_allreduces() {
    std::vector<NcclCall> calls;
    calls.reserve(batch_.segments.size());
    Packs packs;
    for (const Segment& segment : batch_.segments) {
        auto made = reduction_call(Kind::all_reduce, segment);
        RUEDA_RETURN_IF_FAILED(made.status());
        calls.push_back(made.value());
        if (packing_ == Packing::on) {
            packs.add(made.value(), segment);
        }
    }
    packs.place([this](std::size_t bytes) { return reserve_scratch(bytes).offset; });
    for (std::size_t i = 0; i < calls.size(); ++i) {
        const Segment& segment = batch_.segments[i];
        if (const auto offset = packs.take(calls[i], segment)) {
            plan_packed(segment, *offset);
        } else {
            plan_allreduce(segment, calls[i]);
        }
    }
    for (const Pack& pack : packs.all()) {
        add(pack.call);
    }
    return {};
}

/// A member that has called join() contributes neutral elements from scratch memory. Each tensor has its own neutral
/// elements, and its result is written over them. The outputs of different tensors must not overlap, because NCCL may
/// read its output while it works.
void Planner::plan_allreduce(const Segment& segment, NcclCall call) {
    call.count = segment.count;
    call.input = {input_of(segment)};
    call.output = {segment.output};
    if (segment.input == nullptr && segment.count > 0) {
        call.input = call.output = reserve_scratch(segment.bytes());
        fill_neutral(segment, call.input.offset, segment.bytes());
    }
    add(call);
}

void Planner::plan_packed(const Segment& segment, std::size_t offset) {
    if (segment.input == nullptr) {
        fill_neutral(segment, offset, packed_size(segment.bytes()));
    } else {
        plan_.packed.push_back({segment.input, segment.output, offset, segment.bytes()});
    }
}

/// One fill writes all neighbouring ranges of scratch memory that have the same pattern. So a pack (tensors that are
/// reduced together) needs only one fill.
void Planner::fill_neutral(const Segment& segment, std::size_t offset, std::size_t bytes) {
    const auto before = std::find_if(plan_.fills.begin(), plan_.fills.end(), [&](const NeutralFill& fill) {
        return fill.offset + fill.bytes == offset && fill.dtype == segment.dtype && fill.op == segment.reduce_op;
    });
    if (before != plan_.fills.end()) {
        before->bytes += bytes;
    } else {
        plan_.fills.push_back({offset, bytes, segment.dtype, segment.reduce_op});
    }
}

void Planner::plan_broadcast(const Segment& segment) {
    std::byte* const output = segment.output == nullptr ? input_of(segment) : segment.output;
    add({.kind = Kind::broadcast,
         .peer = static_cast<int>(segment.root),
         .count = segment.bytes(),
         .input = {member_ == segment.root ? input_of(segment) : output},
         .output = {output}});
}

Status Planner::plan_reduce(const Segment& segment) {
    auto made = reduction_call(Kind::reduce, segment);
    RUEDA_RETURN_IF_FAILED(made.status());
    NcclCall call = made.value();
    call.peer = static_cast<int>(segment.root);
    call.count = segment.count;
    call.input = {input_of(segment)};
    call.output = {member_ == segment.root ? segment.output : nullptr};
    add(call);
    return {};
}

/// If all members contribute the same number of rows, one allgather is enough. Otherwise every member broadcasts its
/// rows, and all broadcasts are in one group. These broadcasts move as many bytes in total as an allgather of the same
/// rows.
Status Planner::plan_allgather() {
    const Segment& segment = batch_.segments[0];
    const auto rows = batch_.rows;
    if (rows.size() < members_) {
        return short_list("rows", members_);
    }
    const std::uint64_t row_bytes = segment.bytes();
    const auto total =
        static_cast<std::uint64_t>(std::accumulate(rows.begin(), rows.begin() + members_, std::int64_t{0})) * row_bytes;
    Place output{segment.output};
    if (segment.output == nullptr && total > 0) {
        output = reserve_scratch(total);
    }
    const bool are_equal = std::all_of(rows.begin(), rows.begin() + members_, [&](auto r) { return r == rows[0]; });
    if (are_equal) {
        add({.kind = Kind::all_gather,
             .count = static_cast<std::uint64_t>(rows[0]) * row_bytes,
             .input = {input_of(segment)},
             .output = output});
        return {};
    }
    std::size_t offset = 0;
    for (std::uint32_t root = 0; root < members_; ++root) {
        const std::size_t bytes = static_cast<std::uint64_t>(rows[root]) * row_bytes;
        const Place part{moved(output.address, offset), output.is_scratch, output.offset + offset};
        add({.kind = Kind::broadcast,
             .peer = static_cast<int>(root),
             .count = bytes,
             .input = root == member_ ? Place{input_of(segment)} : part,
             .output = part});
        offset += bytes;
    }
    return {};
}

/// If all members get the same number of rows, one reduce-scatter is enough. Otherwise there is a reduce to every
/// member, and all reduces are in one group.
Status Planner::plan_reducescatter() {
    const Segment& segment = batch_.segments[0];
    if (batch_.rows.empty()) {
        return short_list("rows", 1);
    }
    auto made = reduction_call(Kind::reduce_scatter, segment);
    RUEDA_RETURN_IF_FAILED(made.status());
    NcclCall call = made.value();
    const std::int64_t rows = batch_.rows[0];
    call.output = {segment.output};
    if (rows % members_ == 0) {
        call.count = static_cast<std::uint64_t>(rows / members_) * segment.count;
        call.input = {input_of(segment)};
        add(call);
        return {};
    }
    call.kind = Kind::reduce;
    for (std::uint32_t root = 0; root < members_; ++root) {
        const Rows part = rows_of_member(rows, root, members_);
        call.peer = static_cast<int>(root);
        call.count = static_cast<std::uint64_t>(part.count) * segment.count;
        call.input = {moved(input_of(segment), static_cast<std::uint64_t>(part.begin) * segment.bytes())};
        call.output = {root == member_ ? segment.output : nullptr};
        add(call);
    }
    return {};
}

Status Planner::plan_exchange() {
    if (batch_.splits.size() < std::size_t{2} * members_) {
        return short_list("splits", std::size_t{2} * members_);
    }
    exchange(batch_.splits.first(members_), batch_.splits.subspan(members_, members_));
    return {};
}

void Planner::exchange(std::span<const std::int64_t> to, std::span<const std::int64_t> from) {
    const Segment& segment = batch_.segments[0];
    const std::uint64_t row_bytes = segment.bytes();
    const auto received = static_cast<std::uint64_t>(std::accumulate(from.begin(), from.end(), std::int64_t{0}));
    Place output{segment.output};
    if (segment.output == nullptr && received * row_bytes > 0) {
        output = reserve_scratch(received * row_bytes);
    }
    std::size_t sent = 0;
    std::size_t taken = 0;
    for (std::uint32_t peer = 0; peer < members_; ++peer) {
        const std::size_t send_bytes = static_cast<std::uint64_t>(to[peer]) * row_bytes;
        const std::size_t receive_bytes = static_cast<std::uint64_t>(from[peer]) * row_bytes;
        std::byte* const source = moved(input_of(segment), sent);
        const Place target{moved(output.address, taken), output.is_scratch, output.offset + taken};
        sent += send_bytes;
        taken += receive_bytes;
        if (peer != member_) {
            const auto number = static_cast<int>(peer);
            add({.kind = Kind::send, .peer = number, .count = send_bytes, .input = {source}});
            add({.kind = Kind::receive, .peer = number, .count = receive_bytes, .output = target});
        } else if (send_bytes > 0 && !target.is_scratch && target.address != source) {
            plan_.copies.push_back({source, target.address, send_bytes});
        }
    }
}

}  // namespace

void CallPlan::clear() {
    calls.clear();
    factors.clear();
    packed.clear();
    fills.clear();
    copies.clear();
    scratch_bytes = 0;
}

Status plan_calls(const DeviceBatch& batch, std::uint32_t member, std::uint32_t members, Packing packing,
                  CallPlan& plan) {
    plan.clear();
    return batch.segments.empty() ? Status() : Planner(batch, member, members, packing, plan).plan();
}

}  // namespace rueda::collectives::cuda
