// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The Rueda authors
#pragma once

#include <array>
#include <cstdint>

#include "base/control_block.hpp"
#include "collectives/communicator.hpp"
#include "collectives/host/host_set.hpp"
#include "collectives/host/segment_map.hpp"
#include "ops/reduce.hpp"

namespace rueda::collectives {

/// Broadcast and allgather: every contributing member's bytes go, unchanged, to a place in everybody's output. Of a
/// broadcast only the root contributes. One segment per batch.
///
/// A contribution that travelled with the announcements is copied from there; one that lies in the arena is read in
/// place; anything else goes through its rank's cells, chunk by chunk. Per rank and contribution of C bytes: one copy
/// out (its owner, if private) and one copy in (everybody else).
///
/// The root of a broadcast would look on while the others read its tensor. Where theirs lie in the arena as well, it
/// writes an m-th of each of them itself, for m members: then all move as many bytes.
class ExchangeTask final : public Task {
public:
    explicit ExchangeTask(HostSet& set) : set_(set) {}

    void begin(const Batch& batch);
    StepResult step() override;

private:
    struct Contribution {
        std::uint64_t bytes = 0;
        std::uint64_t output_offset = 0;
        const std::byte* readable = nullptr;  ///< all of it, in the arena; null: through the cells
        bool at_once = false;                 ///< tiny: it travelled with the announcement
    };
    void plan_broadcast();
    void plan_allgather();
    void add(std::uint32_t member, std::uint64_t bytes, std::uint64_t output_offset, const Location& location);
    [[nodiscard]] bool needs_cells(std::uint32_t member) const;
    void copy_payloads();
    void copy_own(Range range);
    [[nodiscard]] Range part_of(const Contribution& contribution, std::uint64_t index) const;
    void plan_pushes();
    [[nodiscard]] bool is_pushed_to(std::uint32_t member) const;
    [[nodiscard]] Range pushed(Range part) const;
    void push(Range part);
    [[nodiscard]] bool changes_cells() const;
    [[nodiscard]] std::byte* cell(std::uint32_t member, std::uint64_t index) const;
    [[nodiscard]] bool may_stage() const;
    void stage(std::uint64_t index);
    [[nodiscard]] bool may_fetch() const;
    void fetch(std::uint64_t index);

    HostSet& set_;
    Batch batch_;
    std::array<Contribution, base::kMaxLocalRanks> contributions_{};
    std::uint64_t chunk_bytes_ = 0;  // at most a cell
    std::uint64_t chunk_count_ = 0;
    std::uint64_t staged_chunks_ = 0;
    std::uint64_t fetched_chunks_ = 0;
    bool others_read_my_input_ = false;
    bool i_push_ = false;
    bool root_pushes_to_me_ = false;
    ops::Store store_ = ops::Store::cached;
};

}  // namespace rueda::collectives
