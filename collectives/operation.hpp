// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The Rueda authors
#pragma once

#include <cstdint>

namespace rueda::collectives {

/// The operations that the ranks of a process set execute together on one tensor. Other processes read these numbers in
/// shared memory.
enum class Operation : std::uint8_t {
    allreduce = 0,
    broadcast = 1,
    allgather = 2,
    barrier = 3,
    join = 4,  ///< A join has no announcement (docs/design/0005-join.md). No other operation may have its number.
    alltoall = 5,
    reducescatter = 6,
    /// Says how many tensors a group has. This operation moves no data, and is announced together with the group's
    /// tensors.
    group = 7,
    gather = 8,
    scatter = 9,
    reduce = 10,
};
inline constexpr Operation kLastOperation = Operation::reduce;

/// Whether the first dimension of the input may differ between ranks and between steps.
[[nodiscard]] constexpr bool may_differ_in_rows(Operation operation) noexcept {
    return operation == Operation::allgather || operation == Operation::alltoall || operation == Operation::group ||
           operation == Operation::gather || operation == Operation::scatter;
}

/// Whether the announcement describes the input by its first dimension and the size of a row.
[[nodiscard]] constexpr bool has_variable_rows(Operation operation) noexcept {
    return may_differ_in_rows(operation) || operation == Operation::reducescatter;
}

/// Whether the announcement also says how many rows of the input are for each member.
[[nodiscard]] constexpr bool has_splits(Operation operation) noexcept {
    return operation == Operation::alltoall || operation == Operation::scatter;
}

[[nodiscard]] constexpr bool is_reduction(Operation operation) noexcept {
    return operation == Operation::allreduce || operation == Operation::reducescatter || operation == Operation::reduce;
}

/// Whether the operation can run after some ranks have called join(). Such ranks contribute nothing and get no result.
[[nodiscard]] constexpr bool goes_on_without_joined(Operation operation) noexcept {
    return operation == Operation::allreduce || operation == Operation::barrier || operation == Operation::group;
}

[[nodiscard]] constexpr const char* name_of(Operation operation) noexcept {
    switch (operation) {
        case Operation::allreduce:
            return "allreduce";
        case Operation::broadcast:
            return "broadcast";
        case Operation::allgather:
            return "allgather";
        case Operation::barrier:
            return "barrier";
        case Operation::join:
            return "join";
        case Operation::alltoall:
            return "alltoall";
        case Operation::reducescatter:
            return "reducescatter";
        case Operation::group:
            return "group";
        case Operation::gather:
            return "gather";
        case Operation::scatter:
            return "scatter";
        case Operation::reduce:
            return "reduce";
    }
    return "unknown operation";
}

}  // namespace rueda::collectives
