// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The Rueda authors
#include "core/process_set/announcing/direct_execution.hpp"

#include <algorithm>
#include <cstring>
#include <span>

#include "collectives/rows.hpp"
#include "core/negotiation/foreign.hpp"
#include "ops/reduce.hpp"

namespace rueda::core {

using collectives::Operation;

namespace {

std::array<std::int64_t, kInlineMembers> direct_rows_of(const std::array<collectives::Location, kInlineMembers>& of) {
    std::array<std::int64_t, kInlineMembers> rows{};
    std::transform(of.begin(), of.end(), rows.begin(),
                   [](const collectives::Location& location) { return location.first_dimension; });
    return rows;
}

}  // namespace

Status DirectExecution::run(TensorEntry& entry) {
    switch (static_cast<Operation>(entry.request.metadata.operation)) {
        case Operation::allreduce:
        case Operation::broadcast:
        case Operation::reduce:
            return reduce_or_copy(entry);
        case Operation::allgather:
        case Operation::gather:
            return gather(entry);
        case Operation::reducescatter:
            return scatter(entry);
        case Operation::alltoall:
        case Operation::scatter:
            return exchange(entry);
        case Operation::barrier:
        case Operation::join:
        case Operation::group:  // a group operation has no elements, so it is never announced directly
            break;
    }
    return failure(ErrorCode::internal, "'{}' was announced directly", entry.name);
}

Status DirectExecution::reduce_or_copy(const TensorEntry& entry) {
    const Request& request = entry.request;
    const std::uint64_t bytes = request.bytes();
    const auto operation = static_cast<Operation>(request.metadata.operation);
    const bool reduces = operation != Operation::broadcast;
    const auto root = static_cast<std::uint32_t>(request.metadata.root);
    if (operation == Operation::reduce && view_.rank != root) {
        return {};
    }
    Payloads payloads;
    // The input of this rank and its copy in the announcement are equal. This rank reads the input, so that the cache
    // lines of the copy stay in the caches of the other cores.
    payloads[view_.rank] = request.input;
    for (std::uint32_t member = 0; member < memory_.extent().members; ++member) {
        if (member == view_.rank || (!reduces && member != root)) {
            continue;
        }
        payloads[member] = memory_.payload(entry.slot, member, entry.generation, bytes);
        const Place<base::StdAtomics>& place = memory_.place(entry.slot, member, entry.generation);
        if (const std::uint32_t announced = copy_once(place.payload_bytes);
            announced != bytes || payloads[member] == nullptr) [[unlikely]] {
            return failure(ErrorCode::internal, "tensor '{}': rank {} announced a payload of {} bytes for {}",
                           entry.name, view_.job_rank_of(member), announced, bytes);
        }
    }
    if (reduces) {
        reduction_.reduce(request, payloads, request.output, request.count);
    } else if (view_.rank != root || request.input != request.output) {
        std::memcpy(request.output, payloads[root], bytes);
    }
    return {};
}

/// For an operation of variable size: finds the inputs and the first dimensions of all members. This rank takes its own
/// values from the request of the caller, because other ranks could overwrite its announcement.
Status DirectExecution::locate(const TensorEntry& entry, Locations& of) const {
    for (std::uint32_t member = 0; member < memory_.extent().members; ++member) {
        if (member == view_.rank) {
            of[member].payload = entry.request.input;
            of[member].first_dimension = entry.request.first_dimension;
            continue;
        }
        RUEDA_RETURN_IF_FAILED(announced_.locate(entry, entry.slot, member, of[member]));
        if (of[member].payload == nullptr) {
            return failure(ErrorCode::internal, "tensor '{}': rank {} announced directly, and without a payload",
                           entry.name, view_.job_rank_of(member));
        }
    }
    return {};
}

Status DirectExecution::gather(TensorEntry& entry) {
    const Request& request = entry.request;
    const std::uint64_t row_bytes = request.bytes();
    Locations of;
    RUEDA_RETURN_IF_FAILED(locate(entry, of));
    const auto rows = direct_rows_of(of);
    const std::span<const std::int64_t> of_all = std::span(rows).first(memory_.extent().members);
    const bool to_root = static_cast<Operation>(request.metadata.operation) == Operation::gather;
    Result<std::byte*> output = to_root ? outputs_.on_root(entry, of_all) : outputs_.of_gathered(entry, of_all);
    RUEDA_RETURN_IF_FAILED(output.status());
    std::byte* next = output.value();
    for (std::uint32_t member = 0; member < memory_.extent().members && next != nullptr; ++member) {
        const std::uint64_t bytes = static_cast<std::uint64_t>(of[member].first_dimension) * row_bytes;
        ops::copy(next, of[member].payload, bytes);
        next += bytes;
    }
    return {};
}

Status DirectExecution::scatter(TensorEntry& entry) {
    const Request& request = entry.request;
    const std::uint64_t row_bytes = request.bytes();
    Locations of;
    RUEDA_RETURN_IF_FAILED(locate(entry, of));
    const auto rows = direct_rows_of(of);
    RUEDA_RETURN_IF_FAILED(announced_.check_rows(entry, std::span(rows).first(memory_.extent().members)));
    Result<std::byte*> output = outputs_.of_share(entry);
    RUEDA_RETURN_IF_FAILED(output.status());
    const collectives::Rows share =
        collectives::rows_of_member(request.first_dimension, view_.rank, memory_.extent().members);
    if (share.count > 0) {
        Payloads payloads{};
        for (std::uint32_t member = 0; member < memory_.extent().members; ++member) {
            payloads[member] = of[member].payload + static_cast<std::uint64_t>(share.begin) * row_bytes;
        }
        reduction_.reduce(request, payloads, output.value(), static_cast<std::uint64_t>(share.count) * request.count);
    }
    return {};
}

Status DirectExecution::exchange(TensorEntry& entry) {
    const Request& request = entry.request;
    const std::uint64_t row_bytes = request.bytes();
    const std::uint32_t members = memory_.extent().members;
    Locations of;
    RUEDA_RETURN_IF_FAILED(locate(entry, of));
    const Result<std::int64_t> rows = announced_.read_splits(entry, entry.slot, std::span(of).first(members), splits_);
    RUEDA_RETURN_IF_FAILED(rows.status());
    RUEDA_RETURN_IF_FAILED(announced_.check_source(entry));
    Result<std::byte*> output = outputs_.of_all(entry, rows.value(), 0);
    RUEDA_RETURN_IF_FAILED(output.status());
    std::byte* next = output.value();
    for (std::uint32_t member = 0; member < members && next != nullptr; ++member) {
        const std::span<const std::int64_t> splits = std::span(splits_).subspan(std::size_t{member} * members, members);
        std::uint64_t rows_before = 0;
        for (const std::int64_t split : splits.first(view_.rank)) {
            rows_before += static_cast<std::uint64_t>(split);
        }
        const std::uint64_t bytes = static_cast<std::uint64_t>(splits[view_.rank]) * row_bytes;
        ops::copy(next, of[member].payload + rows_before * row_bytes, bytes);
        next += bytes;
    }
    return {};
}

}  // namespace rueda::core
