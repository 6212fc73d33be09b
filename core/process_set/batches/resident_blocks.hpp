// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The Rueda authors
#pragma once

#include <cstddef>
#include <cstdint>

#include "base/status.hpp"
#include "collectives/cuda/plugin_interface.hpp"
#include "collectives/host/arena/resident_heap.hpp"
#include "core/process_set/common/set_view.hpp"

namespace rueda::core {

/// Gives a set's device communicator resident memory. The members of the host reduce tensors in this memory in place.
///
/// Threads: as for SharedMemory.
class ResidentBlocks final : public collectives::SharedMemory {
public:
    /// The heap and the arena of `view` must outlive this object.
    ResidentBlocks(const SetView& view, collectives::ResidentHeap& heap) : arena_(view.arena), heap_(heap) {}

    [[nodiscard]] Result<Block> allocate(std::size_t bytes) override;
    void deallocate(std::byte* memory) noexcept override;
    void keep_mapped(std::byte* memory) noexcept override { heap_.keep_mapped(memory); }
    [[nodiscard]] std::byte* of_member(std::uint32_t member, std::uint64_t offset, std::size_t bytes) const override {
        return arena_.resident_memory(member, offset, bytes);
    }

private:
    const collectives::Arena& arena_;
    collectives::ResidentHeap& heap_;
};

}  // namespace rueda::core
