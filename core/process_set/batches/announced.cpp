// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The Rueda authors
#include "core/process_set/batches/announced.hpp"

#include <algorithm>

#include "collectives/rows.hpp"
#include "core/negotiation/call_sites.hpp"
#include "core/negotiation/foreign.hpp"
#include "core/negotiation/registrar.hpp"

namespace rueda::core {

using collectives::has_variable_rows;
using collectives::Location;
using collectives::Operation;

Status Announced::locate(const TensorEntry& entry, std::uint32_t slot, std::uint32_t member, Location& location) const {
    using PlaceFlags = Place<base::StdAtomics>::Flags;
    const Place<base::StdAtomics>& place = view_.memory.place(slot, member, entry.generation);
    const Metadata& metadata = entry.request.metadata;
    const auto operation = static_cast<Operation>(metadata.operation);
    // Each value is copied out of the shared memory exactly once, and the copy is checked and used. Another process may
    // change the value in the shared memory after the check.
    const std::uint32_t flags = copy_once(place.flags);
    const std::uint32_t payload_bytes = copy_once(place.payload_bytes);
    location.absent = member == view_.rank ? entry.stands_in : (flags & PlaceFlags::kJoined) != 0;
    if (location.absent) [[unlikely]] {
        location.counted = member == view_.rank ? entry.is_counted : (flags & PlaceFlags::kUncounted) == 0;
        return {};
    }
    // This rank's own number of rows comes from the caller's request, because other ranks can overwrite the arena.
    location.first_dimension = member == view_.rank ? entry.request.first_dimension : copy_once(place.first_dimension);
    if (is_on_device(metadata)) [[unlikely]] {
        location.device_place = copy_once(place.input);
    }
    std::uint64_t bytes = entry.request.bytes();
    if (has_variable_rows(operation)) {
        if (location.first_dimension < 0 ||
            __builtin_mul_overflow(bytes, static_cast<std::uint64_t>(location.first_dimension), &bytes)) {
            return failure(ErrorCode::internal, "tensor '{}': rank {} announced a first dimension of {}", entry.name,
                           view_.job_rank_of(member), location.first_dimension);
        }
    }
    if ((flags & PlaceFlags::kPayload) != 0) {
        location.payload = view_.memory.payload(slot, member, entry.generation, bytes);
        if (payload_bytes != bytes || location.payload == nullptr) {
            return failure(ErrorCode::internal, "tensor '{}': rank {} announced a payload of {} bytes for {}",
                           entry.name, view_.job_rank_of(member), payload_bytes, bytes);
        }
    }
    if ((flags & PlaceFlags::kResidentInput) != 0) {
        location.input = view_.arena.resident_memory(member, copy_once(place.input), bytes);
    }
    if ((flags & PlaceFlags::kResidentOutput) != 0) {
        location.output = view_.arena.resident_memory(member, copy_once(place.output), bytes);
    }
    if (((flags & PlaceFlags::kResidentInput) != 0 && location.input == nullptr) ||
        ((flags & PlaceFlags::kResidentOutput) != 0 && location.output == nullptr)) {
        return failure(ErrorCode::internal, "tensor '{}': rank {} announced memory outside its resident region",
                       entry.name, view_.job_rank_of(member));
    }
    return {};
}

/// Reads how many rows `member` has for each member. Returns false if these are not the splits of `rows` rows.
bool Announced::read_splits_of(const TensorEntry& entry, std::uint32_t slot, std::uint32_t member, std::int64_t rows,
                               std::span<std::int64_t> splits) const {
    const bool is_own = member == view_.rank;
    if (!is_own && (copy_once(view_.memory.place(slot, member, entry.generation).flags) &
                    Place<base::StdAtomics>::kEvenSplits) != 0) {
        const auto members = static_cast<std::int64_t>(splits.size());
        std::fill(splits.begin(), splits.end(), rows / members);
        return rows % members == 0;
    }
    // This rank's own splits come from the request. If this rank read the copy of the splits in the arena, the
    // copy's cache lines would leave the caches of the other cores.
    const std::int64_t* announced =
        is_own ? entry.request.splits.data() : view_.memory.splits(slot, member, entry.generation);
    std::int64_t left = rows;
    for (std::size_t to = 0; to < splits.size(); ++to) {
        splits[to] = copy_once(announced[to]);
        if (splits[to] < 0 || splits[to] > left) {
            return false;
        }
        left -= splits[to];
    }
    return left == 0;
}

Result<std::int64_t> Announced::read_splits(TensorEntry& entry, std::uint32_t slot, std::span<const Location> of,
                                            std::vector<std::int64_t>& splits) const {
    const std::size_t members = view_.extent().members;
    std::vector<std::int64_t>& received = entry.completion->received_splits;
    splits.resize(members * members);
    received.resize(members);
    std::int64_t rows = 0;
    for (std::uint32_t member = 0; member < members; ++member) {
        const auto of_member = std::span(splits).subspan(member * members, members);
        if (!read_splits_of(entry, slot, member, of[member].first_dimension, of_member)) {
            return failure(ErrorCode::internal,
                           "tensor '{}': rank {} announced splits that are not those of its {} rows", entry.name,
                           view_.job_rank_of(member), of[member].first_dimension);
        }
        received[member] = of_member[view_.rank];
        if (__builtin_add_overflow(rows, received[member], &rows)) {
            return failure(ErrorCode::resource_exhausted, "tensor '{}': the received first dimensions overflow",
                           entry.name);
        }
    }
    return rows;
}

Status Announced::check_rows(const TensorEntry& entry, std::span<const std::int64_t> rows) const {
    const std::int64_t mine = entry.request.first_dimension;
    for (std::size_t member = 0; member < rows.size(); ++member) {
        if (rows[member] != mine) {
            return failure(ErrorCode::internal, "tensor '{}': rank {} announced {} rows for a reducescatter of {}",
                           entry.name, view_.identity.ranks[member], rows[member], mine);
        }
    }
    return {};
}

Status Announced::check_source(TensorEntry& entry) const {
    const Metadata& metadata = entry.request.metadata;
    if (static_cast<Operation>(metadata.operation) != Operation::scatter) {
        return {};
    }
    std::vector<std::int64_t>& received = entry.completion->received_splits;
    for (std::size_t member = 0; member < received.size(); ++member) {
        if (received[member] != 0 && member != static_cast<std::size_t>(metadata.root)) {
            return failure(ErrorCode::internal, "tensor '{}': rank {} has rows for others, and is not the root",
                           entry.name, view_.identity.ranks[member]);
        }
    }
    received.clear();
    return {};
}

std::string Announced::called_from(std::uint32_t slot, std::uint64_t generation) const {
    std::vector<SiteOfRanks> sites;
    for (std::uint32_t member = 0; view_.extent().call_sites != 0 && member < view_.extent().members; ++member) {
        if (!stood_in(slot, member, generation)) {
            add_site(sites, read_site(view_.memory.site(slot, member, generation).read()), view_.job_rank_of(member));
        }
    }
    return core::called_from(std::move(sites));
}

bool Announced::stood_in(std::uint32_t slot, std::uint32_t member, std::uint64_t generation) const {
    const std::uint32_t flags = copy_once(view_.memory.place(slot, member, generation).flags);
    return Registrar<base::StdAtomics>::has_joined(flags);
}

}  // namespace rueda::core
