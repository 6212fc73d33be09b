// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The Rueda authors
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <vector>

#include "base/shared_memory/control_block.hpp"
#include "base/status.hpp"
#include "base/unique_fd.hpp"
#include "collectives/host/arena/address_reserve.hpp"
#include "collectives/host/arena/message_region.hpp"

namespace rueda::collectives {

/// How large the parts of an arena are; the same on all ranks of the host.
struct ArenaPlan {
    std::uint32_t members = 1;
    std::uint64_t negotiation_bytes = 0;
    std::uint64_t cell_bytes = 0;
    std::uint32_t cells_per_rank = 4;
    std::uint64_t resident_bytes = 0;  ///< address space per rank; memory is used only where it is allocated
    std::uint64_t ring_bytes = 0;      ///< for messages, per pair of ranks and direction (MessageRegion); 0: none

    [[nodiscard]] bool operator==(const ArenaPlan&) const = default;
};

/// How far a rank is in moving bytes: counts of chunks, over all batches of the set. One line per rank, written by it.
struct alignas(base::kCacheLine) Progress {
    std::atomic<std::uint64_t> staged{0};    ///< my contribution to so many chunks lies in my cells
    std::atomic<std::uint64_t> combined{0};  ///< between hosts: my lane has combined the inputs of so many pieces
    std::atomic<std::uint64_t> reduced{0};   ///< my share of so many chunks is combined
    std::atomic<std::uint64_t> fetched{0};   ///< of so many chunks I need no cell and nobody's memory any more
    std::atomic<std::uint64_t> resident{0};  ///< my share of so many batches is combined in resident memory
    std::atomic<std::uint64_t> ended{0};     ///< between hosts: of so many batches I need nobody's cells any more
};
static_assert(sizeof(Progress) == base::kCacheLine);

/// The memory that the ranks of one host share: one memfd, or what stands in for it, mapped by each. Only offsets are
/// stored in it, because every rank has it at another address. The mapping lives as long as anybody holds the Arena, or
/// until release(), which leaves what outlives a job. A forked child does not have it: a touch there is a fault of the
/// child, and cannot change the parent's tensors.
///
/// Threads: the accessors are const and may be called from any thread; what they point to has its own rules.
class Arena {
public:
    /// An unwritten memory object of the size that `plan` needs, which no process can change any more where the kernel
    /// has seals (memfd_create(2)). Nothing of it is used yet.
    [[nodiscard]] static Result<base::UniqueFd> create_memory(const ArenaPlan& plan);
    /// Maps it. All ranks do, the leader too. `addresses`, which may be null and outlives it: where it may lie, and
    /// what it leaves when it goes.
    [[nodiscard]] static Result<std::shared_ptr<Arena>> map(base::UniqueFd memory, const ArenaPlan& plan,
                                                            std::uint32_t rank, AddressReserve* addresses = nullptr);
    ~Arena();
    Arena(const Arena&) = delete;
    Arena& operator=(const Arena&) = delete;

    /// Writes the control block into fresh memory: the leader, before the others look.
    void initialise();
    /// Whether what the leader wrote is what this rank would have written.
    [[nodiscard]] Status check() const;

    /// Makes this the arena of a process set: its ranks sleep, live and end, and keep their resident tensors, in `job`,
    /// where element m of `members` says which member is member m of this. Before anybody else has it.
    void join(std::shared_ptr<Arena> job, std::span<const std::uint32_t> members);

    /// Whole pages of this rank's resident region.
    struct Pages {
        std::uint64_t offset = 0;
        std::uint64_t bytes = 0;
    };
    /// At the end of a job that was not aborted: unmaps everything but `kept`, in ascending order. The control block of
    /// a job becomes this process' own, in which all have left: threads that came late may look at it, and write there.
    /// Whoever calls this sees to it that nobody uses anything else (docs/design/0001-negotiation.md, "After the end").
    /// Once; under ThreadSanitizer, where ranks share the mapping, it stays.
    void release(std::span<const Pages> kept);
    /// And later some of those, for good; nothing before release(). Threads: one at a time.
    void release_kept(Pages pages);

    [[nodiscard]] const ArenaPlan& plan() const { return plan_; }
    [[nodiscard]] std::uint32_t rank() const { return rank_; }
    /// -1 after close_descriptor(): the mapping stays. Threads: who closes it sees to it that nobody uses it.
    [[nodiscard]] int descriptor() const { return memory_.value(); }
    void close_descriptor() { memory_.reset(); }
    [[nodiscard]] base::ControlBlock& control() const { return *reinterpret_cast<base::ControlBlock*>(head_); }
    /// Of its ranks, and the end of the job: in its control block, or in that of the job's arena.
    [[nodiscard]] const base::HostBlocks& blocks() const { return blocks_; }
    [[nodiscard]] std::byte* negotiation() const { return base_ + offsets_.negotiation; }
    [[nodiscard]] Progress& progress(std::uint32_t rank) const {
        return reinterpret_cast<Progress*>(base_ + offsets_.progress)[rank];
    }
    [[nodiscard]] std::byte* cell(std::uint32_t rank, std::uint64_t chunk) const {
        const std::uint64_t index = std::uint64_t{rank} * plan_.cells_per_rank + chunk % plan_.cells_per_rank;
        return base_ + offsets_.cells + index * plan_.cell_bytes;
    }
    /// Of the job's arena only.
    [[nodiscard]] MessageRegion message_region() const {
        return {base_ + offsets_.messages, plan_.members, plan_.ring_bytes};
    }
    [[nodiscard]] std::byte* resident(std::uint32_t rank) const {
        return base_ + offsets_.resident + rank * plan_.resident_bytes;
    }
    [[nodiscard]] std::uint64_t resident_file_offset(std::uint32_t rank) const {
        return offsets_.resident + rank * plan_.resident_bytes;
    }

    /// Offset of [memory, memory + bytes) if all of it lies in this rank's resident region; what announcements carry.
    [[nodiscard]] std::optional<std::uint64_t> resident_offset(const void* memory, std::uint64_t bytes) const {
        if (job_ != nullptr) {
            return job_->resident_offset(memory, bytes);
        }
        const auto begin = reinterpret_cast<std::uintptr_t>(memory);
        const auto region = reinterpret_cast<std::uintptr_t>(resident(rank_));
        if (begin < region || begin - region > plan_.resident_bytes ||
            bytes > plan_.resident_bytes - (begin - region)) {
            return std::nullopt;
        }
        return begin - region;
    }
    /// The way back, for another rank's offset: null if it does not lie in that rank's region.
    [[nodiscard]] std::byte* resident_memory(std::uint32_t rank, std::uint64_t offset, std::uint64_t bytes) const {
        if (job_ != nullptr) {
            return job_->resident_memory(job_members_[rank], offset, bytes);
        }
        if (offset > plan_.resident_bytes || bytes > plan_.resident_bytes - offset) {
            return nullptr;
        }
        return resident(rank) + offset;
    }

private:
    struct Offsets {
        std::uint64_t negotiation, progress, cells, messages, resident, end;
    };
    [[nodiscard]] static Offsets offsets(const ArenaPlan& plan);
    Arena(base::UniqueFd memory, const ArenaPlan& plan, std::uint32_t rank, AddressReserve* addresses, std::byte* head,
          std::byte* base)
        : plan_(plan),
          offsets_(offsets(plan)),
          memory_(std::move(memory)),
          rank_(rank),
          addresses_(addresses),
          head_(head),
          base_(base),
          blocks_(*reinterpret_cast<base::ControlBlock*>(head)) {}
    void detach_head();

    ArenaPlan plan_;
    Offsets offsets_;
    base::UniqueFd memory_;
    std::uint32_t rank_;
    AddressReserve* addresses_;
    std::byte* head_;  // the control block of its ranks, mapped once more: the only part that stays where it is
    std::byte* base_;
    bool released_ = false;
    base::HostBlocks blocks_;
    std::shared_ptr<Arena> job_;  // null: this is the job's
    std::vector<std::uint32_t> job_members_;
};

}  // namespace rueda::collectives
