// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The Rueda authors
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <vector>

#include "collectives/cuda/plugin_interface.hpp"
#include "collectives/cuda/staged/staging_device.hpp"

namespace rueda::collectives::cuda {

/// Blocks of pinned memory that all members of a process set on one host share. The CPU reduces a piece in place, from
/// the blocks of all members, so it needs no copy between pinned memory and shared memory.
///
/// Each member has one area: a page with a counter, and then the blocks. A piece that uses the area has a number, which
/// is the same on all members. The number determines the piece's block. The counter is the number of the last piece
/// that this member has copied into its area. Before the CPU of a member reduces a piece, the member reads the counters
/// of all members, to make sure that the inputs of all members are in their blocks.
///
/// Members use their areas only if all members have one.
///
/// Threads: one at a time, the thread that drives progress.
class SharedArea {
public:
    SharedArea(std::shared_ptr<StagingDevice> device, std::shared_ptr<SharedMemory> memory, std::uint32_t member,
               std::uint32_t members, std::size_t block_bytes, std::size_t blocks);
    /// Frees the area's memory, unless leave_to_process() was called.
    ~SharedArea();
    SharedArea(const SharedArea&) = delete;
    SharedArea& operator=(const SharedArea&) = delete;

    /// Allocates this member's area, once. If this member cannot have an area, own_place() returns 0.
    void allocate();
    /// Returns where this member's area is, as a number. connect() needs the numbers of all members.
    [[nodiscard]] std::uint64_t own_place() const { return place_; }
    /// Takes the results of own_place() of all members. These numbers come from other processes, so they are checked.
    void connect(std::span<const std::uint64_t> places);
    [[nodiscard]] bool is_connected() const { return is_connected_; }
    [[nodiscard]] bool is_usable() const { return !areas_.empty(); }

    [[nodiscard]] std::size_t block_bytes() const { return block_bytes_; }
    /// The block of piece `number` on a member. Numbers begin at 1.
    [[nodiscard]] std::byte* block(std::uint32_t member, std::uint64_t number) const;
    [[nodiscard]] std::byte* own_block(std::uint64_t number) const { return block(member_, number); }
    /// Tells the other members that this member has copied piece `number` into its area.
    void publish(std::uint64_t number);
    /// Whether all members have copied piece `number` into their areas.
    [[nodiscard]] bool is_ready(std::uint64_t number) const;

    /// Keeps the memory allocated until the process ends, because the device or another member may still use it.
    void leave_to_process() noexcept { is_left_ = true; }

private:
    /// The first page of an area. Other processes read it.
    struct Header {
        /// The number of the last piece that was copied into this area. publish() stores it with release, after the
        /// event of the copy was reached. is_ready() loads it with acquire.
        std::atomic<std::uint64_t> copied_in;
    };
    static_assert(std::atomic<std::uint64_t>::is_always_lock_free);
    static constexpr std::size_t kHeaderBytes = 4096;

    [[nodiscard]] std::size_t bytes() const { return kHeaderBytes + blocks_ * block_bytes_; }
    [[nodiscard]] static Header& header_of(std::byte* area) { return *reinterpret_cast<Header*>(area); }
    [[nodiscard]] bool pin(std::byte* memory) const;
    [[nodiscard]] bool unpin() const noexcept;

    const std::shared_ptr<StagingDevice> device_;
    const std::shared_ptr<SharedMemory> memory_;
    const std::uint32_t member_;
    const std::uint32_t members_;
    const std::size_t block_bytes_;
    const std::size_t blocks_;
    bool was_asked_ = false;
    std::byte* own_ = nullptr;
    std::uint64_t place_ = 0;  // the offset of this member's area, plus 1; 0 if this member has no area
    bool is_connected_ = false;
    bool is_left_ = false;
    // The areas of all members, in this rank's mapping; empty if the members use no areas.
    std::vector<std::byte*> areas_;
};

}  // namespace rueda::collectives::cuda
