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

/// The sizes of the parts of an arena, the memory that the ranks of a host share. All ranks of the host must use the
/// same sizes.
struct ArenaPlan {
    std::uint32_t members = 1;
    std::uint64_t negotiation_bytes = 0;
    std::uint64_t cell_bytes = 0;
    std::uint32_t cells_per_rank = 4;
    std::uint64_t resident_bytes = 0;  ///< address space for the tensors of each rank; only tensors that were allocated
                                       ///< use memory
    std::uint64_t ring_bytes = 0;      ///< bytes for messages in one direction between two ranks (MessageRegion); 0 if
                                       ///< there are no messages
    std::uint64_t stream_from = 4 << 20;  ///< outputs of at least this number of bytes are written with stores that
                                          ///< bypass the caches
    std::uint32_t parts = 4;    ///< how many chunks an allgather, alltoall or reducescatter makes of a tensor for which
                                ///< the cells are large enough
    bool has_recorder = false;  ///< whether the shared memory contains the ranks' flight recorders (what each rank did
                                ///< last)

    [[nodiscard]] bool operator==(const ArenaPlan&) const = default;
};

/// How far a rank has come in moving bytes. All counts are over all batches of the process set. Each rank has its own
/// cache line, and only that rank writes it. In the comments below, "this rank" is the rank that writes.
struct alignas(base::kCacheLine) Progress {
    std::atomic<std::uint64_t> staged{0};    ///< number of chunks whose input this rank has copied to its cells (its
                                             ///< buffers in the arena)
    std::atomic<std::uint64_t> combined{0};  ///< number of pieces whose inputs this rank has combined for its host
                                             ///< (only on several hosts)
    std::atomic<std::uint64_t> reduced{0};   ///< number of chunks in which this rank has combined its share
    std::atomic<std::uint64_t> fetched{0};   ///< number of chunks for which this rank no longer reads any other rank's
                                             ///< memory
    std::atomic<std::uint64_t> resident{0};  ///< number of batches in which this rank has combined its share of the
                                             ///< tensors in shared memory
    std::atomic<std::uint64_t> ended{0};     ///< number of batches for which this rank no longer reads any rank's
                                             ///< buffers (only on several hosts)
};
static_assert(sizeof(Progress) == base::kCacheLine);

/// Returns a number that grows with the work that a rank has done. If a batch makes no progress, a comparison of these
/// numbers shows which rank of the host is behind. `combined` is left out, because not all ranks combine the same
/// number of pieces. Threads: any thread.
[[nodiscard]] inline std::uint64_t steps_of(const Progress& progress) {
    // relaxed: the number only appears in a report, and no other data depends on it
    return progress.staged.load(std::memory_order_relaxed) + progress.reduced.load(std::memory_order_relaxed) +
           progress.fetched.load(std::memory_order_relaxed) + progress.resident.load(std::memory_order_relaxed);
}

/// The memory that the ranks of one host share: a memfd or a replacement for it, which every rank maps. It contains
/// offsets instead of pointers, because the ranks map it at different addresses. The mapping exists until the last
/// shared_ptr to the Arena is gone, or until release(). release() keeps only the tensors that outlive the job. A forked
/// child does not have the mapping: an access to these addresses is a fault, so the child cannot change the parent's
/// tensors.
///
/// Threads: the accessors are const and may be called from any thread. The objects that they return have their own
/// rules.
class Arena {
public:
    /// Creates a memory object of the size that `plan` needs. Nothing is written to the object, so it uses no memory
    /// yet. If the kernel supports seals (memfd_create(2)), no process can change its size afterwards.
    [[nodiscard]] static Result<base::UniqueFd> create_memory(const ArenaPlan& plan);
    /// Maps the memory. All ranks call this function, including the leader. If `addresses` is not null, the arena takes
    /// its addresses from this reserve, and gives them back when it is destroyed. The reserve must outlive the arena.
    [[nodiscard]] static Result<std::shared_ptr<Arena>> map(base::UniqueFd memory, const ArenaPlan& plan,
                                                            std::uint32_t rank, AddressReserve* addresses = nullptr);
    ~Arena();
    Arena(const Arena&) = delete;
    Arena& operator=(const Arena&) = delete;

    /// Writes the control block into fresh memory. Only the leader calls this function, before any other rank reads the
    /// block.
    void initialise();
    /// Checks that the control block, which the leader wrote, fits this rank's plan.
    [[nodiscard]] Status check() const;

    /// Makes this arena (shared memory) the arena of a process set within the job. Control blocks and tensors of the
    /// set's ranks then lie in the job's arena `job`. Member m of this arena is member `members[m]` of `job`. Call this
    /// function before other threads can use the arena.
    void join(std::shared_ptr<Arena> job, std::span<const std::uint32_t> members);

    /// A range of whole pages in this rank's region for tensors, as an offset and a length in bytes.
    struct Pages {
        std::uint64_t offset = 0;
        std::uint64_t bytes = 0;
    };
    /// Unmaps everything except the ranges in `kept`, which must be in ascending order. Call this function once, at the
    /// end of a job that was not aborted. Other threads may still read and write the job's control block after this
    /// call. So this function replaces the control block by a private block, in which all ranks have left. The caller
    /// ensures that no thread uses any other part of the arena (docs/design/0001-negotiation.md, "After the end").
    /// Under ThreadSanitizer nothing is unmapped, because the ranks share one mapping.
    void release(std::span<const Pages> kept);
    /// Unmaps some of the pages that release() kept. Before release(), this function does nothing. Threads: any thread,
    /// but only one at a time.
    void release_kept(Pages pages);
    /// Keeps the pages mapped until the process ends. Call this for pages that the driver has pinned, because a device
    /// may still use them. If they were unmapped, other memory of this process could get their addresses. Threads: one
    /// at a time, before the destructor.
    void keep_mapped(Pages pages) noexcept;

    [[nodiscard]] const ArenaPlan& plan() const { return plan_; }
    [[nodiscard]] std::uint32_t rank() const { return rank_; }
    /// The descriptor of the memory, or -1 after close_descriptor(). The memory stays mapped after the descriptor is
    /// closed. Threads: the caller of close_descriptor() ensures that no other thread uses the descriptor.
    [[nodiscard]] int descriptor() const { return memory_.value(); }
    void close_descriptor() { memory_.reset(); }
    [[nodiscard]] base::ControlBlock& control() const { return *reinterpret_cast<base::ControlBlock*>(head_); }
    /// The blocks of this arena's ranks, and the job's abort block. If this is the job's arena, these blocks lie in its
    /// own control block. If this is the arena of a process set, they lie in the control block of the job's arena.
    [[nodiscard]] const base::HostBlocks& blocks() const { return blocks_; }
    [[nodiscard]] std::byte* negotiation() const { return base_ + offsets_.negotiation; }
    [[nodiscard]] Progress& progress(std::uint32_t rank) const {
        return reinterpret_cast<Progress*>(base_ + offsets_.progress)[rank];
    }
    [[nodiscard]] std::byte* cell(std::uint32_t rank, std::uint64_t chunk) const {
        const std::uint64_t index = std::uint64_t{rank} * plan_.cells_per_rank + chunk % plan_.cells_per_rank;
        return base_ + offsets_.cells + index * plan_.cell_bytes;
    }
    /// The flight recorder of a rank: its record of what it did last. It lies in the shared memory of the job. Null if
    /// the job has no flight recorders.
    [[nodiscard]] base::RankRecorder* recorder(std::uint32_t rank) const {
        if (job_ != nullptr) {
            return job_->recorder(job_members_[rank]);
        }
        return plan_.has_recorder ? reinterpret_cast<base::RankRecorder*>(base_ + offsets_.recorder) + rank : nullptr;
    }
    /// The region for messages between ranks. Only the shared memory of the job has such a region, not that of a
    /// process set.
    [[nodiscard]] MessageRegion message_region() const {
        return {base_ + offsets_.messages, plan_.members, plan_.ring_bytes};
    }
    [[nodiscard]] std::byte* resident(std::uint32_t rank) const {
        return base_ + offsets_.resident + rank * plan_.resident_bytes;
    }
    [[nodiscard]] std::uint64_t resident_file_offset(std::uint32_t rank) const {
        return offsets_.resident + rank * plan_.resident_bytes;
    }

    /// Returns the offset of [memory, memory + bytes) if this range lies completely in this rank's region for tensors.
    /// Ranks announce such offsets to each other instead of pointers.
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
    /// Converts another rank's offset to an address in this rank's mapping. Returns null if the bytes do not lie in
    /// that rank's region for tensors.
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
    void unmap_all_but(std::span<const Pages> kept);

    ArenaPlan plan_;
    Offsets offsets_;
    base::UniqueFd memory_;
    std::uint32_t rank_;
    AddressReserve* addresses_;
    std::byte* head_;  // a second mapping of the control block, which keeps its address when everything else is
                       // unmapped
    std::byte* base_;
    bool released_ = false;
    std::vector<Pages> kept_mapped_;
    bool keeps_everything_ = false;  ///< true if no memory was left for an element of `kept_mapped_`
    base::HostBlocks blocks_;
    std::shared_ptr<Arena> job_;  // the job's arena; null if this arena is the job's arena
    std::vector<std::uint32_t> job_members_;
};

}  // namespace rueda::collectives
