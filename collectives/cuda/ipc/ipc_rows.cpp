// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The Rueda authors
#include "collectives/cuda/ipc/ipc_rows.hpp"

#include <algorithm>
#include <array>
#include <span>

#include "collectives/cuda/ipc/ipc_pieces.hpp"
#include "collectives/rows.hpp"

namespace rueda::collectives::cuda {
namespace {

std::uint64_t bytes_of(std::int64_t rows, const Segment& segment) {
    return static_cast<std::uint64_t>(rows) * segment.bytes();
}

void add_input(IpcRows& plan, std::uint64_t bytes, bool is_own) {
    plan.longest = std::max(plan.longest, bytes);
    plan.moved += bytes;
    plan.input_bytes = is_own ? bytes : plan.input_bytes;
}

/// Adds a range to `plan.wanted`; its bytes go to the offset `at` in the output. A member without an output takes part
/// only so that the other members can finish, so the function adds nothing for it.
void add_wanted(IpcRows& plan, std::uint32_t member, std::uint64_t begin, std::uint64_t bytes, std::uint64_t at) {
    if (bytes > 0 && plan.segment.output != nullptr) {
        plan.wanted.push_back({.member = member, .begin = begin, .bytes = bytes, .output = plan.segment.output + at});
    }
}

Status short_rows(const DeviceBatch& batch, std::uint32_t members) {
    return failure(ErrorCode::internal, "the lists of a batch ({}) have too few elements for {} members on one host",
                   name_of(batch.operation), members);
}

Status plan_gathered(const DeviceBatch& batch, std::uint32_t member, std::uint32_t members, IpcRows& plan) {
    if (batch.rows.size() < members) {
        return short_rows(batch, members);
    }
    for (std::uint32_t from = 0; from < members; ++from) {
        const std::uint64_t bytes = bytes_of(batch.rows[from], plan.segment);
        add_wanted(plan, from, 0, bytes, plan.moved);
        add_input(plan, bytes, from == member);
    }
    return {};
}

Status plan_reduced(const DeviceBatch& batch, std::uint32_t member, std::uint32_t members, IpcRows& plan) {
    if (batch.rows.size() < members) {
        return short_rows(batch, members);
    }
    const std::int64_t rows = batch.rows[member];
    const Rows own = rows_of_member(rows, member, members);
    plan.reduces = true;
    add_input(plan, bytes_of(rows, plan.segment), /*is_own=*/true);
    add_wanted(plan, member, bytes_of(own.begin, plan.segment), bytes_of(own.count, plan.segment), 0);
    return {};
}

/// `splits` has the rows that each member sends to each member, ordered by the sending member.
Status plan_split(const DeviceBatch& batch, std::uint32_t member, std::uint32_t members, IpcRows& plan) {
    const std::span<const std::int64_t> splits = batch.host.splits;
    if (splits.size() < std::size_t{members} * members) {
        return short_rows(batch, members);
    }
    std::uint64_t received = 0;
    for (std::uint32_t from = 0; from < members; ++from) {
        std::uint64_t sent = 0;
        for (std::uint32_t to = 0; to < members; ++to) {
            const std::uint64_t bytes = bytes_of(splits[std::size_t{from} * members + to], plan.segment);
            if (to == member) {
                add_wanted(plan, from, sent, bytes, received);
                received += bytes;
            }
            sent += bytes;
        }
        add_input(plan, sent, from == member);
    }
    return {};
}

/// The part of a wanted range that lies in a piece.
struct PartOfPiece {
    std::size_t in_slot = 0;
    std::uint64_t bytes = 0;  // 0: nothing
    std::byte* output = nullptr;
};

PartOfPiece part_in(const IpcRows::Wanted& wanted, std::size_t piece, std::size_t slot_bytes) {
    const std::uint64_t begin = std::uint64_t{piece} * slot_bytes;
    const std::uint64_t first = std::max(begin, wanted.begin);
    const std::uint64_t end = std::min(begin + slot_bytes, wanted.begin + wanted.bytes);
    if (first >= end) {
        return {};
    }
    return {.in_slot = first - begin, .bytes = end - first, .output = wanted.output + (first - wanted.begin)};
}

}  // namespace

bool moves_rows(Operation operation) {
    return operation == Operation::allgather || operation == Operation::reducescatter ||
           operation == Operation::alltoall || operation == Operation::gather || operation == Operation::scatter;
}

Status plan_ipc_rows(const DeviceBatch& batch, std::uint32_t member, std::uint32_t members, IpcRows& plan) {
    plan = {};
    plan.segment = batch.segments[0];
    plan.input = plan.segment.input;
    switch (batch.operation) {
        case Operation::allgather:
            return plan_gathered(batch, member, members, plan);
        case Operation::reducescatter:
            return plan_reduced(batch, member, members, plan);
        default:
            return plan_split(batch, member, members, plan);
    }
}

std::size_t pieces_of(const IpcRows& plan, std::size_t slot_bytes) {
    return (plan.longest + slot_bytes - 1) / slot_bytes;
}

Status launch_rows_in(Kernels& kernels, CudaStream stream, const IpcRows& plan, std::size_t piece,
                      std::size_t slot_bytes, std::byte* slot) {
    const std::uint64_t begin = std::uint64_t{piece} * slot_bytes;
    if (begin >= plan.input_bytes) {
        return {};
    }
    IpcCopies copies(kernels, stream);
    RUEDA_RETURN_IF_FAILED(
        copies.add(plan.input + begin, slot, std::min<std::uint64_t>(slot_bytes, plan.input_bytes - begin)));
    return copies.launch();
}

Status launch_rows_out(Kernels& kernels, CudaStream stream, const IpcRows& plan, std::size_t piece,
                       std::size_t slot_bytes, std::span<std::byte* const> slots) {
    IpcCopies copies(kernels, stream);
    for (const IpcRows::Wanted& wanted : plan.wanted) {
        const PartOfPiece part = part_in(wanted, piece, slot_bytes);
        if (part.bytes == 0) {
            continue;
        }
        RUEDA_RETURN_IF_FAILED(
            plan.reduces ? launch_reduction(kernels, stream, plan.segment, slots, part.in_slot, part.bytes, part.output)
                         : copies.add(slots[wanted.member] + part.in_slot, part.output, part.bytes));
    }
    return copies.launch();
}

}  // namespace rueda::collectives::cuda
