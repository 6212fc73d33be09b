// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The Rueda authors
#include "core/process_set/announcing/announcement_writer.hpp"

#include <algorithm>
#include <cstring>
#include <numeric>

#include "collectives/rows.hpp"
#include "core/negotiation/call_sites.hpp"
#include "core/negotiation/carried.hpp"

namespace rueda::core {

using collectives::has_variable_rows;
using collectives::Operation;

void AnnouncementWriter::write_wanted_site(const TensorEntry& entry) const {
    view_.memory.site(entry.slot, view_.rank, entry.generation)
        .write(site_text(entry.request.source_file, entry.request.source_line));
}

/// Returns the buffer for an input that is sent with the announcement; null if the input is too large.
std::byte* AnnouncementWriter::payload_room(Place<Atomics>& place, const TensorEntry& entry, std::uint64_t generation,
                                            std::uint64_t bytes) const {
    if (entry.slot != kNoSlot) {
        return view_.memory.payload(entry.slot, view_.rank, generation, bytes);
    }
    // Without a slot, the announcement is made by name, in a mailbox record, which has space only for a small input.
    return bytes <= kInlineBytes ? place.payload.data() : nullptr;
}

/// Whether a long tensor that would fit into the buffer stays in resident memory.
bool AnnouncementWriter::stays_resident(const Request& request, bool contributes, std::uint64_t bytes) const {
    return view_.arena.resident_offset(contributes ? request.input : request.output, bytes).has_value() &&
           // Without an output in resident memory, an allreduce cannot be combined in place.
           (static_cast<Operation>(request.metadata.operation) != Operation::allreduce ||
            view_.arena.resident_offset(request.output, bytes).has_value());
}

/// Copies the input to where the other members read it, except the rows that only this rank reads. A rank reads its own
/// input elsewhere.
void AnnouncementWriter::copy_for_others(std::byte* payload, const Request& request, std::uint64_t bytes) const {
    const collectives::Rows own = own_rows(request);
    const std::uint64_t row_bytes = request.bytes();
    const std::uint64_t begin = static_cast<std::uint64_t>(own.begin) * row_bytes;
    const std::uint64_t end = begin + static_cast<std::uint64_t>(own.count) * row_bytes;
    std::memcpy(payload, request.input, begin);
    std::memcpy(payload + end, request.input + end, bytes - end);
}

/// Returns the rows of this rank's input that only this rank reads.
collectives::Rows AnnouncementWriter::own_rows(const Request& request) const {
    switch (static_cast<Operation>(request.metadata.operation)) {
        case Operation::reducescatter:
            return collectives::rows_of_member(request.first_dimension, view_.rank, view_.extent().members);
        case Operation::alltoall:
        case Operation::scatter: {
            const auto own = request.splits.begin() + view_.rank;
            return {std::accumulate(request.splits.begin(), own, std::int64_t{0}), *own};
        }
        default:
            return {};
    }
}

bool AnnouncementWriter::fill(Place<Atomics>& place, const TensorEntry& entry, std::uint64_t generation,
                              bool with_metadata) const {
    using PlaceFlags = Place<Atomics>::Flags;
    const Request& request = entry.request;
    const Metadata& metadata = request.metadata;
    const auto operation = static_cast<Operation>(metadata.operation);
    const std::uint64_t rows = has_variable_rows(operation) ? static_cast<std::uint64_t>(request.first_dimension) : 1;
    const std::uint64_t input_bytes = request.count * rows * size_of(static_cast<DType>(metadata.dtype));
    const bool contributes =
        operation != Operation::broadcast || metadata.root == static_cast<std::int32_t>(view_.set_rank);

    place.flags = 0;
    place.payload_bytes = 0;
    place.first_dimension = request.first_dimension;
    if (entry.stands_in) [[unlikely]] {
        place.flags = PlaceFlags::kJoined;
        place.flags |= entry.is_counted ? 0U : static_cast<std::uint32_t>(PlaceFlags::kUncounted);
        // The metadata are needed only if the announcement is in a mailbox record, because the registrar checks every
        // field of such a record.
        if (with_metadata) {
            place.flags |= PlaceFlags::kMetadata;
            place.metadata = metadata;
        }
        return false;
    }
    if (with_metadata) {
        place.flags |= PlaceFlags::kMetadata;
        place.metadata = metadata;
        place.signature = signature_of(metadata);
    }
    if (is_on_device(metadata)) [[unlikely]] {
        place.input = request.device != nullptr ? request.device->place : 0;
        return false;  // The input is in device memory, so the CPU cannot send it with the announcement.
    }
    // Resident tensors of more than this size stay where they are. The other ranks then combine them in place, or copy
    // from them. This moves fewer cache lines, but each rank waits a second time, for the shares of the others. In sets
    // of two ranks, this wait costs more than the lines up to 24 KiB, and as much as them at 32 KiB.
    constexpr std::uint64_t kLargestResident = 32 * 1024;
    // To leave out rows of a smaller input takes longer than to copy them.
    constexpr std::uint64_t kLongInput = 4 * 1024;
    const bool travels = view_.extent().inputs_travel() &&
                         (input_bytes <= kLargestResident || !stays_resident(request, contributes, input_bytes));
    std::byte* const payload = travels ? payload_room(place, entry, generation, input_bytes) : nullptr;
    if (payload != nullptr && contributes) {
        place.flags |= PlaceFlags::kPayload;
        place.payload_bytes = static_cast<std::uint32_t>(input_bytes);
        if (input_bytes >= kLongInput) {
            copy_for_others(payload, request, input_bytes);
        } else if (input_bytes > 0) {
            std::memcpy(payload, request.input, input_bytes);
        }
    } else if (payload == nullptr) {
        if (const auto offset = view_.arena.resident_offset(request.input, input_bytes); offset && contributes) {
            place.flags |= PlaceFlags::kResidentInput;
            place.input = *offset;
        }
        if (const auto offset = view_.arena.resident_offset(request.output, input_bytes); offset) {
            place.flags |= PlaceFlags::kResidentOutput;
            place.output = *offset;
        }
    }
    if (view_.extent().leader_carries_inputs() && !with_metadata) [[unlikely]] {
        let_leader_carry(place, entry, generation);
    }
    return payload != nullptr;
}

/// Copies the input to where the leader finds it, if the leader may send it to the root of the tree.
void AnnouncementWriter::let_leader_carry(Place<Atomics>& place, const TensorEntry& entry,
                                          std::uint64_t generation) const {
    if (!carried_reduction(entry.request.metadata, view_.set_size)) {
        return;
    }
    const std::uint64_t bytes = entry.request.bytes();
    if (std::byte* const room = payload_room(place, entry, generation, bytes)) {
        place.flags |= Place<Atomics>::Flags::kCarried;
        place.payload_bytes = static_cast<std::uint32_t>(bytes);
        std::memcpy(room, entry.request.input, bytes);
    }
}

}  // namespace rueda::core
