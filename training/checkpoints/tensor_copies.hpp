// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The Rueda authors
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <vector>

#include "rueda/training/checkpoint_manager.hpp"

namespace rueda::training {

/// Memory for copies of tensors. The memory is kept between checkpoints, because getting new pages from the kernel
/// takes longer than the copy. Threads: one thread at a time.
class TensorCopies {
public:
    /// Forgets all copies, and makes room for copies of `tensors` and `parts`. Throws std::bad_alloc.
    void make_room(std::span<const NamedTensor> model, std::span<const NamedTensor> state,
                   std::span<const TensorPart> parts);
    /// Copies tensors for which make_room() was called. The result points into this object.
    [[nodiscard]] std::vector<NamedTensor> copy_tensors(std::span<const NamedTensor> tensors);
    [[nodiscard]] std::vector<TensorPart> copy_parts(std::span<const TensorPart> parts);

private:
    [[nodiscard]] TensorView copy(const TensorView& tensor);

    std::unique_ptr<std::byte[]> memory_;
    std::size_t capacity_ = 0;
    std::size_t used_ = 0;
};

}  // namespace rueda::training
