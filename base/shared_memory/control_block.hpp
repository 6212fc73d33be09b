// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The Rueda authors
#pragma once

#include <algorithm>
#include <array>
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <span>
#include <string>
#include <string_view>

#include "base/shared_memory/abort.hpp"
#include "base/shared_memory/atomics.hpp"
#include "base/shared_memory/attention.hpp"
#include "base/text.hpp"

namespace rueda::base {

/// The maximum number of ranks on one host. A 64-bit mask has one bit for each rank.
inline constexpr int kMaxLocalRanks = 64;

/// The state of a rank, as the other ranks see it.
enum class RankState : std::uint32_t {
    absent = 0,         ///< the rank has not attached to the shared memory yet
    running = 1,        ///< the rank is between init and shutdown
    shutting_down = 2,  ///< the rank has announced its shutdown, and still serves the other ranks
    left = 3,           ///< the rank has left: the end of its process is not a failure any more
    dead = 4,           ///< the rank is dead; the rank that noticed the death writes this
};

/// A short text that one rank writes and that other processes may read at any time. A sequence lock protects it. The
/// text consists of atomics, so a read during a write is detected and is not undefined behaviour. Threads: one writer
/// at a time (the rank must ensure this), any number of readers.
template <std::size_t kBytes>
class SharedText {
    static_assert(kBytes % sizeof(std::uint64_t) == 0);

public:
    void write(std::string_view text) {
        std::array<std::uint64_t, kWords> words{};
        copy_shortened(text, {reinterpret_cast<char*>(words.data()), kBytes - 1});
        const std::uint32_t version = version_.load(std::memory_order_relaxed);
        // read() loads the version before and after it loads the text, so the version must change before the text does.
        // exchange() with acq_rel ensures this order. A fence would do too, but ThreadSanitizer does not know fences.
        version_.exchange(version + 1, std::memory_order_acq_rel);
        for (std::size_t i = 0; i < kWords; ++i) {
            words_[i].store(words[i], std::memory_order_release);
        }
        version_.store(version + 2, std::memory_order_release);
    }
    /// Returns the text. Returns an empty text if the writer does not finish a change in time, for example because it
    /// died.
    [[nodiscard]] std::string read() const {
        Copy copy;
        return std::string(read(copy));
    }

    static constexpr std::size_t kWords = kBytes / sizeof(std::uint64_t);
    using Copy = std::array<std::uint64_t, kWords>;
    /// Does the same as read(), but copies the text to memory of the caller. Signal handlers may call this function,
    /// because it allocates nothing and does not wait.
    [[nodiscard]] std::string_view read(Copy& copy) const {
        for (int attempt = 0; attempt < 100; ++attempt) {
            const std::uint32_t before = version_.load(std::memory_order_acquire);
            for (std::size_t i = 0; i < kWords; ++i) {
                copy[i] = words_[i].load(std::memory_order_acquire);
            }
            if (before % 2 == 0 && version_.load(std::memory_order_relaxed) == before) {
                const char* text = reinterpret_cast<const char*>(copy.data());
                return {text, static_cast<std::size_t>(std::find(text, text + kBytes, '\0') - text)};
            }
        }
        return {};
    }

private:
    std::atomic<std::uint32_t> version_{0};
    std::array<std::atomic<std::uint64_t>, kWords> words_{};
};

/// Through this block, other ranks of the host ask whether a rank takes turns: whether its thread that drives progress
/// still returns from its steps (docs/design/0015-stacks.md). The numbers start at 0 again after 2^32 - 1.
struct TurnBlock {
    /// How many times other ranks have asked. A rank that asks adds 1 with acq_rel; the background thread of the asked
    /// rank loads with acquire.
    std::atomic<std::uint32_t> asked{0};
    /// The value of `asked` that the background thread of the asked rank has passed on to the thread that drives
    /// progress. It stores with release, after it has passed the question on; the asking rank loads with acquire.
    std::atomic<std::uint32_t> passed_on{0};
    /// The value of `asked` that the thread that drives progress has answered in one of its turns. It stores with
    /// release; the asking rank loads with acquire.
    std::atomic<std::uint32_t> answered{0};
};

/// Facts about one rank that other ranks of its host read. (The progress in collectives is stored elsewhere.) The block
/// lies in shared memory; `rueda top` reads it too.
struct alignas(kCacheLine) RankBlock {
    Attention<StdAtomics> attention;

    alignas(kCacheLine) std::atomic<std::uint32_t> state{0};  ///< RankState
    /// 1 after an abort if this rank no longer writes to the memory of other ranks.
    std::atomic<std::uint32_t> left_batches{0};
    std::atomic<std::int32_t> pid{0};  ///< the process number in the rank's own pid namespace
    std::atomic<std::int32_t> global_rank{-1};
    std::atomic<std::uint64_t> process_start{0};  ///< start time of the process (field 22 of /proc/<pid>/stat), which
                                                  ///< tells it apart from a later process with the same pid
    std::atomic<std::int64_t> heartbeat_ns{0};    ///< when the background thread was last active, in CLOCK_MONOTONIC
    std::atomic<std::uint32_t> ended_job{0};      ///< 1 if this rank aborted the job and will end soon
    std::atomic<std::int64_t> step{-1};           ///< the training step that the rank began last; -1: it has reported
                                                  ///< none
    std::atomic<std::int64_t> busy_since_ns{0};   ///< when the activity in `busy` began; 0 if there is none

    alignas(kCacheLine) SharedText<128> busy;        ///< innermost scope (activity that the program declared); empty
                                                     ///< outside any scope
    alignas(kCacheLine) SharedText<256> end_reason;  ///< why this rank ended; empty if it could not write the reason
    TurnBlock turns;

    // The following three members describe the pending send or receive in which a caller of this rank has waited
    // longest. The rank writes them only after a long wait. Other ranks of the host read them for their stall reports.
    alignas(kCacheLine) SharedText<104> message;
    std::atomic<std::int64_t> message_since_ns{0};
    std::atomic<std::uint64_t> message_kind{0};  ///< what the awaited message is
                                                 ///< (core/diagnostics/awaited_message.hpp); 0: the rank awaits no
                                                 ///< message
};

/// Whether a rank can give other ranks the stack of its main thread.
enum class StackOffer : std::uint32_t {
    none = 0,     ///< stacks are switched off, or the rank has not offered them
    offered = 1,  ///< the rank answers
    refused = 2,  ///< the rank cannot answer; `StackBlock::text` says why
};

/// Through this block, other ranks of the host ask a rank for the stack of its main thread, and the rank answers
/// (docs/design/0015-stacks.md). A block of zeros means StackOffer::none.
struct alignas(kCacheLine) StackBlock {
    std::atomic<std::uint32_t> offer{0};  ///< a StackOffer; its rank stores with release, readers load with acquire
    /// How many times other ranks have asked for the stack. A rank that asks adds 1 with release; the background thread
    /// of the asked rank loads with acquire.
    std::atomic<std::uint32_t> asked{0};
    /// The value of `asked` that `text` answers; a smaller value than `asked` means that an answer is missing. The
    /// asked rank stores with release; the asking rank loads with acquire.
    std::atomic<std::uint32_t> answered{0};
    SharedText<4096> text;
};

/// The data at the beginning of the arena, the memory that all ranks of a host share.
struct alignas(4096) ControlBlock {
    /// Increase this number with every change of the arena's layout.
    static constexpr std::uint32_t kLayoutVersion = 19;
    static constexpr std::uint64_t kMagic = 0x5255454441303031;  // "RUEDA001"

    std::uint64_t magic = 0;
    std::uint32_t layout_version = 0;
    std::uint32_t members = 0;
    std::uint64_t total_bytes = 0;
    std::uint64_t negotiation_offset = 0;
    std::uint64_t negotiation_bytes = 0;
    std::uint64_t progress_offset = 0;
    std::uint64_t cells_offset = 0;
    std::uint64_t cell_bytes = 0;
    std::uint32_t cells_per_rank = 0;
    std::uint32_t reserved = 0;
    std::uint64_t resident_offset = 0;
    std::uint64_t resident_bytes = 0;   ///< size of one rank's region for tensors
    std::uint64_t recorder_offset = 0;  ///< offset of rank 0's RankRecorder; the recorders of the other ranks follow
    std::uint64_t recorder_bytes = 0;   ///< size of one rank's RankRecorder; 0 in the arena of a process set, because
                                        ///< its ranks record in the arena of the job

    AbortBlock<StdAtomics> abort;
    RankBlock ranks[kMaxLocalRanks];

    [[nodiscard]] StackBlock& stack_of(std::uint32_t member) {
        return *reinterpret_cast<StackBlock*>(stacks + member * sizeof(StackBlock));
    }
    /// The StackBlocks, stored as plain bytes. The constructor therefore does not write to this memory, which only few
    /// jobs use. New shared memory consists of zeros, and zeros are a valid initial state.
    alignas(kCacheLine) std::byte stacks[kMaxLocalRanks * sizeof(StackBlock)];
};

static_assert(std::is_trivially_destructible_v<ControlBlock>);
static_assert(std::is_trivially_destructible_v<StackBlock>);

/// Finds the blocks of the members of a group (the job or a process set) on one host: the RankBlock and the StackBlock
/// of each member, indexed by member. Also gives access to the job's AbortBlock. All these blocks lie in the shared
/// memory of the whole job, which may have more ranks than the group.
class HostBlocks {
public:
    /// Makes the object for the whole job.
    HostBlocks(ControlBlock& control) : abort_(&control.abort) {  // NOLINT(google-explicit-constructor): all it holds
        for (std::size_t member = 0; member < blocks_.size(); ++member) {
            blocks_[member] = &control.ranks[member];
            stacks_[member] = &control.stack_of(static_cast<std::uint32_t>(member));
        }
    }
    /// Makes the object for a group. Member m of the group is the rank `members[m]` of `job`.
    HostBlocks(const HostBlocks& job, std::span<const std::uint32_t> members) : abort_(job.abort_) {
        for (std::size_t member = 0; member < members.size(); ++member) {
            blocks_[member] = job.blocks_[members[member]];
            stacks_[member] = job.stacks_[members[member]];
        }
    }
    [[nodiscard]] RankBlock& of(std::uint32_t member) const { return *blocks_[member]; }
    [[nodiscard]] StackBlock& stack_of(std::uint32_t member) const { return *stacks_[member]; }
    [[nodiscard]] AbortBlock<StdAtomics>& abort() const { return *abort_; }

private:
    AbortBlock<StdAtomics>* abort_;
    std::array<RankBlock*, kMaxLocalRanks> blocks_{};
    std::array<StackBlock*, kMaxLocalRanks> stacks_{};
};
static_assert(sizeof(Attention<StdAtomics>) == kCacheLine);

}  // namespace rueda::base
