// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The Rueda authors
#include "collectives/cuda/ipc/ipc_pieces.hpp"

#include <algorithm>
#include <array>

#include "ops/cuda/launch.hpp"

namespace rueda::collectives::cuda {
namespace {

bool have_one_reduction(const Segment& a, const Segment& b) {
    return a.dtype == b.dtype && a.reduce_op == b.reduce_op && a.prescale == b.prescale && a.postscale == b.postscale &&
           a.uncounted == b.uncounted;
}

/// Returns the number of parts at the beginning of `parts` that have the same reduction as the first part.
std::size_t length_of_run(std::span<const StagedPart> parts) {
    std::size_t length = 1;
    while (length < parts.size() && have_one_reduction(parts[0].segment, parts[length].segment)) {
        ++length;
    }
    return length;
}

Status launch_run(Kernels& kernels, CudaStream stream, std::span<const StagedPart> run, const IpcMemory& memory) {
    const StagedPart& first = run.front();
    const StagedPart& last = run.back();
    if (run.size() == 1) {
        return launch_reduction(kernels, stream, first.segment, memory.slots, first.input_offset, first.input_bytes,
                                first.device_output);
    }
    const std::size_t begin = first.input_offset;
    RUEDA_RETURN_IF_FAILED(launch_reduction(kernels, stream, first.segment, memory.slots, begin,
                                            last.input_offset + last.input_bytes - begin, memory.scratch + begin));
    IpcCopies copies(kernels, stream);
    for (const StagedPart& part : run) {
        RUEDA_RETURN_IF_FAILED(copies.add(memory.scratch + part.output_offset, part.device_output, part.output_bytes));
    }
    return copies.launch();
}

}  // namespace

Status IpcCopies::add(const std::byte* from, std::byte* to, std::size_t bytes) {
    items_[count_++] = {.source = from, .destination = to, .count = bytes};
    return count_ == items_.size() ? launch() : Status();
}

Status IpcCopies::launch() {
    if (count_ == 0) {
        return {};
    }
    const auto items = std::span(items_).first(count_);
    count_ = 0;
    return kernels_.launch(ops::cuda::batch_launch({.from = DType::uint8, .to = DType::uint8}, items), stream_);
}

Status launch_reduction(Kernels& kernels, CudaStream stream, const Segment& segment, std::span<std::byte* const> slots,
                        std::size_t offset, std::size_t bytes, std::byte* to) {
    std::array<const std::byte*, ops::cuda::kMostSources> sources{};
    std::transform(slots.begin(), slots.end(), sources.begin(),
                   [offset](const std::byte* slot) { return slot + offset; });
    const auto members = static_cast<std::uint32_t>(slots.size());
    return kernels.launch(ops::cuda::reduce_launch(segment.reduction(members), std::span(sources).first(slots.size()),
                                                   to, bytes / size_of(segment.dtype)),
                          stream);
}

Status launch_inputs(Kernels& kernels, CudaStream stream, std::span<const StagedPart> parts, std::byte* slot) {
    IpcCopies copies(kernels, stream);
    for (const StagedPart& part : parts) {
        if (part.device_input != nullptr) {
            RUEDA_RETURN_IF_FAILED(copies.add(part.device_input, slot + part.input_offset, part.input_bytes));
        }
    }
    return copies.launch();
}

Status launch_outputs(Kernels& kernels, CudaStream stream, Operation operation, std::span<const StagedPart> parts,
                      const IpcMemory& memory) {
    if (operation == Operation::broadcast) {
        IpcCopies copies(kernels, stream);
        for (const StagedPart& part : parts) {
            if (part.device_output != nullptr) {
                RUEDA_RETURN_IF_FAILED(copies.add(memory.slots[part.segment.root] + part.input_offset,
                                                  part.device_output, part.output_bytes));
            }
        }
        return copies.launch();
    }
    // If the first part has no output on this member, no part has one. For example, a reduce has outputs only on its
    // root.
    if (parts.empty() || parts.front().device_output == nullptr) {
        return {};
    }
    for (std::size_t first = 0; first < parts.size();) {
        const std::size_t length = length_of_run(parts.subspan(first));
        RUEDA_RETURN_IF_FAILED(launch_run(kernels, stream, parts.subspan(first, length), memory));
        first += length;
    }
    return {};
}

}  // namespace rueda::collectives::cuda
