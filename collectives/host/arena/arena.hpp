// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The Rueda authors
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <vector>

#include "base/recorder/rank_recorder.hpp"
#include "base/shared_memory/control_block.hpp"
#include "base/status.hpp"
#include "base/unique_fd.hpp"
#include "collectives/host/arena/address_reserve.hpp"
#include "collectives/host/arena/message_region.hpp"

namespace rueda::collectives {

/// The sizes of an arena's parts. They are the same on all ranks of the host.
struct ArenaPlan {
    std::uint32_t members = 1;
    std::uint64_t negotiation_bytes = 0;
    std::uint64_t cell_bytes = 0;
    std::uint32_t cells_per_rank = 4;
    std::uint64_t resident_bytes = 0;  ///< address space for the tensors of each rank; only allocated tensors use
                                       ///< memory
    std::uint64_t ring_bytes = 0;      ///< bytes for the messages of one direction between two ranks (MessageRegion); 0
                                       ///< means no messages
    bool has_recorder = false;  ///< whether it contains the flight recorders of the ranks; true for the job's arena

    [[nodiscard]] bool operator==(const ArenaPlan&) const = default;
};

/// A rank's progress in moving bytes. All members are counts over all batches of the set. Each rank has its own line,
/// and no other rank writes it.
struct alignas(base::kCacheLine) Progress {
    std::atomic<std::uint64_t> staged{0};    ///< the number of chunks for which my contribution lies in my cells
    std::atomic<std::uint64_t> combined{0};  ///< between hosts: the number of pieces whose inputs my lane has combined
    std::atomic<std::uint64_t> reduced{0};   ///< the number of chunks in which I have combined my share
    std::atomic<std::uint64_t> fetched{0};   ///< the number of chunks for which I no longer need any rank's cells or
                                             ///< memory
    std::atomic<std::uint64_t> resident{0};  ///< the number of batches in which I have combined my share in resident
                                             ///< memory
    std::atomic<std::uint64_t> ended{0};     ///< between hosts: the number of batches for which I no longer need any
                                             ///< rank's cells
};
static_assert(sizeof(Progress) == base::kCacheLine);

/// How much a rank has done, to compare it with other ranks of the same arena when a batch stands still. The counts of
/// lanes are not in it, because the lanes of a batch have different numbers of pieces. Any thread.
[[nodiscard]] inline std::uint64_t steps_of(const Progress& progress) {
    // relaxed: a report shows what another process can see of a rank that makes no progress
    return progress.staged.load(std::memory_order_relaxed) + progress.reduced.load(std::memory_order_relaxed) +
           progress.fetched.load(std::memory_order_relaxed) + progress.resident.load(std::memory_order_relaxed);
}

/// The memory that the ranks of one host share. It is one memfd, or a replacement for a memfd, and every rank maps it.
/// The memory contains offsets instead of pointers, because every rank maps it at a different address. The mapping
/// exists as long as any shared_ptr to the Arena, or until release(), which keeps only the tensors that outlive the
/// job. A forked child does not have the mapping: an access by the child is a fault, so the child cannot change the
/// parent's tensors.
///
/// Threads: the accessors are const and may be called from any thread. The objects that they return have their own
/// rules.
class Arena {
public:
    /// Creates a memory object of the size that `plan` needs. The function does not write to it, so it uses no memory
    /// yet. If the kernel supports seals (memfd_create(2)), no process can change the size of the object afterwards.
    [[nodiscard]] static Result<base::UniqueFd> create_memory(const ArenaPlan& plan);
    /// Maps the memory. All ranks call this, including the leader. `addresses` may be null. Otherwise the arena uses
    /// the addresses of an earlier arena from it, and returns its own addresses to it at the end. `addresses` must
    /// outlive the arena.
    [[nodiscard]] static Result<std::shared_ptr<Arena>> map(base::UniqueFd memory, const ArenaPlan& plan,
                                                            std::uint32_t rank, AddressReserve* addresses = nullptr);
    ~Arena();
    Arena(const Arena&) = delete;
    Arena& operator=(const Arena&) = delete;

    /// Writes the control block into fresh memory. The leader calls this before the other ranks read the block.
    void initialise();
    /// Checks that the leader wrote the control block that this rank expects.
    [[nodiscard]] Status check() const;

    /// Turns this arena into the arena of a process set. The set's ranks keep their control block and resident tensors
    /// in the arena `job`. Member m of this arena is member `members[m]` of `job`. Call this before other threads can
    /// use the arena.
    void join(std::shared_ptr<Arena> job, std::span<const std::uint32_t> members);

    /// A range of whole pages in this rank's resident region.
    struct Pages {
        std::uint64_t offset = 0;
        std::uint64_t bytes = 0;
    };
    /// Unmaps everything except the ranges in `kept`, which must be in ascending order. Call this once, at the end of a
    /// job that was not aborted. The control block of the job is replaced by a private block in which all ranks have
    /// left, so threads that are late may still read and write it. The caller ensures that no thread uses any other
    /// part of the arena (docs/design/0001-negotiation.md, "After the end"). Under ThreadSanitizer, where ranks share
    /// the mapping, nothing is unmapped.
    void release(std::span<const Pages> kept);
    /// Unmaps some of the kept pages later, after release(). Before release() it does nothing. Threads: one at a time.
    void release_kept(Pages pages);

    [[nodiscard]] const ArenaPlan& plan() const { return plan_; }
    [[nodiscard]] std::uint32_t rank() const { return rank_; }
    /// The descriptor of the memory, or -1 after close_descriptor(). Closing it does not unmap the memory. Threads: the
    /// caller of close_descriptor() ensures that no thread uses the descriptor.
    [[nodiscard]] int descriptor() const { return memory_.value(); }
    void close_descriptor() { memory_.reset(); }
    [[nodiscard]] base::ControlBlock& control() const { return *reinterpret_cast<base::ControlBlock*>(head_); }
    /// The blocks of this arena's ranks, and the abort block of the job. They are in this arena's control block, or in
    /// the control block of the job's arena.
    [[nodiscard]] const base::HostBlocks& blocks() const { return blocks_; }
    [[nodiscard]] std::byte* negotiation() const { return base_ + offsets_.negotiation; }
    [[nodiscard]] Progress& progress(std::uint32_t rank) const {
        return reinterpret_cast<Progress*>(base_ + offsets_.progress)[rank];
    }
    [[nodiscard]] std::byte* cell(std::uint32_t rank, std::uint64_t chunk) const {
        const std::uint64_t index = std::uint64_t{rank} * plan_.cells_per_rank + chunk % plan_.cells_per_rank;
        return base_ + offsets_.cells + index * plan_.cell_bytes;
    }
    /// The flight recorder of a rank, which lies in the job's arena. Null if that has none.
    [[nodiscard]] base::RankRecorder* recorder(std::uint32_t rank) const {
        if (job_ != nullptr) {
            return job_->recorder(job_members_[rank]);
        }
        return plan_.has_recorder ? reinterpret_cast<base::RankRecorder*>(base_ + offsets_.recorder) + rank : nullptr;
    }
    /// The region for messages. Only the job's arena has one.
    [[nodiscard]] MessageRegion message_region() const {
        return {base_ + offsets_.messages, plan_.members, plan_.ring_bytes};
    }
    [[nodiscard]] std::byte* resident(std::uint32_t rank) const {
        return base_ + offsets_.resident + rank * plan_.resident_bytes;
    }
    [[nodiscard]] std::uint64_t resident_file_offset(std::uint32_t rank) const {
        return offsets_.resident + rank * plan_.resident_bytes;
    }

    /// Returns the offset of [memory, memory + bytes) if this range lies completely in this rank's resident region.
    /// Announcements contain such offsets.
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
    /// Converts the offset of another rank's tensor to an address in this rank's mapping. Returns null if the bytes do
    /// not lie in the other rank's region.
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
        std::uint64_t negotiation, progress, recorder, cells, messages, resident, end;
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
    std::byte* head_;  // a second mapping of the control block; it stays at its address when everything else is
                       // unmapped
    std::byte* base_;
    bool released_ = false;
    base::HostBlocks blocks_;
    std::shared_ptr<Arena> job_;  // null if this is the job's arena
    std::vector<std::uint32_t> job_members_;
};

}  // namespace rueda::collectives
