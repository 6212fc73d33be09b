// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The Rueda authors
#include "training/checkpoints/tensor_copies.hpp"

#include <cstring>

namespace rueda::training {
namespace {

/// Each copy begins at a multiple of a cache line, so that all dtypes are aligned.
constexpr std::size_t kAlignment = 64;

std::size_t copied_bytes(const TensorView& tensor) {
    const std::int64_t elements = tensor.shape().elements();
    if (elements < 0) {
        throw InvalidArgument("checkpoint: a tensor has a negative extent or more elements than any memory holds");
    }
    return static_cast<std::size_t>(elements) * size_of(tensor.dtype());
}

std::size_t room_for(const TensorView& tensor) {
    return (copied_bytes(tensor) + kAlignment - 1) / kAlignment * kAlignment;
}

}  // namespace

void TensorCopies::make_room(std::span<const NamedTensor> model, std::span<const NamedTensor> state,
                             std::span<const TensorPart> parts) {
    std::size_t bytes = 0;
    for (const auto& tensors : {model, state}) {
        for (const NamedTensor& each : tensors) {
            bytes += room_for(each.tensor);
        }
    }
    for (const TensorPart& each : parts) {
        bytes += room_for(each.tensor);
    }
    used_ = 0;
    if (bytes > capacity_) {
        memory_.reset();
        capacity_ = 0;
        memory_ = std::make_unique_for_overwrite<std::byte[]>(bytes);
        capacity_ = bytes;
    }
}

TensorView TensorCopies::copy(const TensorView& tensor) {
    std::byte* const target = memory_.get() + used_;
    const std::size_t bytes = copied_bytes(tensor);
    if (bytes > 0) {
        std::memcpy(target, tensor.data(), bytes);
    }
    used_ += room_for(tensor);
    return {target, tensor.dtype(), tensor.shape()};
}

std::vector<NamedTensor> TensorCopies::copy_tensors(std::span<const NamedTensor> tensors) {
    std::vector<NamedTensor> copies;
    for (const NamedTensor& each : tensors) {
        copies.push_back({each.name, copy(each.tensor)});
    }
    return copies;
}

std::vector<TensorPart> TensorCopies::copy_parts(std::span<const TensorPart> parts) {
    std::vector<TensorPart> copies;
    for (const TensorPart& each : parts) {
        copies.push_back({each.name, copy(each.tensor), each.rows, each.whole_rows});
    }
    return copies;
}

}  // namespace rueda::training
