// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The Rueda authors
#include "core/process_set/batches/resident_blocks.hpp"

#include <algorithm>

namespace rueda::core {

Result<collectives::SharedMemory::Block> ResidentBlocks::allocate(std::size_t bytes) {
    // The block must begin at a page. The heap guarantees this only for blocks of kLargeBlock bytes or more, so smaller
    // requests are enlarged to this size.
    const std::uint64_t wanted = std::max<std::uint64_t>(bytes, collectives::ResidentHeap::kLargeBlock);
    const Result<void*> memory = heap_.allocate(wanted);
    RUEDA_RETURN_IF_FAILED(memory.status());
    const auto offset = arena_.resident_offset(memory.value(), wanted);
    if (!offset) {
        deallocate(static_cast<std::byte*>(memory.value()));
        return failure(ErrorCode::internal, "a block of {} bytes is not in this rank's shared memory", wanted);
    }
    return Block{static_cast<std::byte*>(memory.value()), *offset};
}

/// After an abort the heap keeps the block, because other members may still write to it.
void ResidentBlocks::deallocate(std::byte* memory) noexcept try {
    static_cast<void>(heap_.deallocate(memory));
} catch (...) {  // NOLINT(bugprone-empty-catch): without memory for the heap's tables, the block stays in use
}

}  // namespace rueda::core
