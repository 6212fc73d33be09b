// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The Rueda authors
#include "core/operations/device_memory.hpp"

#include <algorithm>
#include <cstddef>
#include <utility>

#include "collectives/operation.hpp"

namespace rueda::core {

using collectives::DeviceMemoryPtr;
using collectives::Location;
using collectives::NcclMemory;
using collectives::Operation;

namespace {

// If place_of() returns at least this number, all tensors of the operation are in NCCL's memory. kPartlyInNcclMemory is
// smaller than this number.
constexpr std::uint64_t kInNcclMemory = 2;

/// Whether the operation could run on NVLink SHARP. NVLink SHARP needs the same offsets in the registered memory of all
/// members (NCCL User Guide, "User Buffer Registration").
bool needs_same_offsets(Operation operation) {
    return operation == Operation::allreduce || operation == Operation::allgather ||
           operation == Operation::reducescatter;
}

std::uint64_t offset_in(const DeviceMemoryPtr& memory, const std::byte* address) {
    return memory == nullptr ? 0 : static_cast<std::uint64_t>(address - memory->begin);
}

/// Combines two offsets into one number. The probability that two different pairs of offsets get the same number is
/// only 2^-62.
std::uint64_t number_of_offsets(std::uint64_t input, std::uint64_t output) {
    constexpr std::uint64_t kOdd = 0x9E3779B97F4A7C15;  // 2^64 divided by the golden ratio
    const std::uint64_t mixed = ((input * kOdd) ^ (input >> 29U)) + output;
    const std::uint64_t number = (mixed ^ (mixed >> 32U)) * kOdd;
    return std::max(number, kInNcclMemory);
}

/// Returns a number that says where the tensors are. A null address is ignored, because the operation does not use it.
std::uint64_t place_of(const Request& request, const DeviceMemoryPtr& input, const DeviceMemoryPtr& output) {
    const auto is_in_nccl_memory = [](const DeviceMemoryPtr& memory) {
        return memory != nullptr && memory->is_from_nccl;
    };
    const bool has_input = request.input != nullptr;
    const bool has_output = request.output != nullptr;
    if (!is_in_nccl_memory(input) && !is_in_nccl_memory(output)) {
        return 0;
    }
    if ((has_input && !is_in_nccl_memory(input)) || (has_output && !is_in_nccl_memory(output))) {
        return DeviceUse::kPartlyInNcclMemory;
    }
    return needs_same_offsets(static_cast<Operation>(request.metadata.operation))
               ? number_of_offsets(offset_in(input, request.input), offset_in(output, request.output))
               : kInNcclMemory;
}

}  // namespace

std::shared_ptr<const DeviceUse> with_memory_of(std::shared_ptr<const DeviceUse> use, const Request& request) {
    DeviceMemoryPtr input = use->runtime->memory_of(request.input);
    DeviceMemoryPtr output = request.output == request.input ? input : use->runtime->memory_of(request.output);
    if (input == nullptr && output == nullptr && use->input_memory == nullptr && use->output_memory == nullptr) {
        return use;
    }
    DeviceUse own = *use;
    own.place = place_of(request, input, output);
    own.input_memory = std::move(input);
    own.output_memory = std::move(output);
    return std::make_shared<const DeviceUse>(std::move(own));
}

NcclMemory agreed_memory(std::span<const Location> locations) {
    const auto place_of_member = [](const Location& location) { return location.absent ? 0 : location.device_place; };
    const std::uint64_t first = locations.empty() ? 0 : place_of_member(locations.front());
    const bool are_equal = std::all_of(locations.begin(), locations.end(),
                                       [&](const Location& one) { return place_of_member(one) == first; });
    if (!are_equal || first == DeviceUse::kPartlyInNcclMemory) {
        return NcclMemory::some;
    }
    return first == 0 ? NcclMemory::none : NcclMemory::all;
}

}  // namespace rueda::core
