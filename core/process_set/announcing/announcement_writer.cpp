// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The Rueda authors
#include "core/process_set/announcing/announcement_writer.hpp"

#include <algorithm>
#include <cstring>

#include "collectives/rows.hpp"
#include "core/negotiation/call_sites.hpp"
#include "core/negotiation/carried.hpp"

namespace rueda::core {

using collectives::has_variable_rows;
using collectives::Operation;

namespace {

/// Resident inputs up to this size are sent with their announcement. Larger resident tensors are combined in place:
/// each rank combines a share of the tensor. This saves time, because fewer cache lines move between the cores. But
/// each rank must wait for the shares of the other ranks. Only for larger tensors, the method saves more time than the
/// wait costs.
constexpr std::uint64_t kResidentPayloadBytes = 8192;

}  // namespace

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
    // The search for resident memory takes time. Inputs up to kResidentPayloadBytes are sent with the announcement in
    // any case. So the search is done only for larger inputs.
    const auto is_resident = [&] {
        return (!contributes || view_.arena.resident_offset(request.input, input_bytes).has_value()) &&
               view_.arena.resident_offset(request.output, input_bytes).has_value();
    };
    std::byte* const payload =
        view_.extent().inputs_travel() && (input_bytes <= kResidentPayloadBytes || !is_resident())
            ? payload_room(place, entry, generation, input_bytes)
            : nullptr;
    if (payload != nullptr && contributes) {
        place.flags |= PlaceFlags::kPayload;
        place.payload_bytes = static_cast<std::uint32_t>(input_bytes);
        if (input_bytes > 0) {
            std::memcpy(payload, request.input, input_bytes);
        }
    } else {
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
