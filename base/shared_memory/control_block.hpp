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

/// The maximum number of ranks on one host: the arrival masks have one bit for each rank.
inline constexpr int kMaxLocalRanks = 64;

/// The state of a rank, as the other ranks see it.
enum class RankState : std::uint32_t {
    absent = 0,         ///< has not attached yet
    running = 1,        ///< between init and shutdown
    shutting_down = 2,  ///< has announced its shutdown, and still serves the other ranks
    left = 3,           ///< has left: its process may end at any time, and its end is not a failure
    dead = 4,           ///< dead; written by the rank that noticed the death
};

/// A short text that its rank writes and that others may read at any time. It is protected by a sequence lock. The text
/// consists of atomics, so a read during a write is not undefined behaviour, and it is detected. Threads: one writer
/// (the rank must serialise its writes), any number of readers.
template <std::size_t kBytes>
class SharedText {
    static_assert(kBytes % sizeof(std::uint64_t) == 0);

public:
    void write(std::string_view text) {
        std::array<std::uint64_t, kWords> words{};
        copy_shortened(text, {reinterpret_cast<char*>(words.data()), kBytes - 1});
        const std::uint32_t version = version_.load(std::memory_order_relaxed);
        // These are acq_rel read-modify-writes instead of fences, because ThreadSanitizer does not model standalone
        // fences. They pair with read().
        version_.exchange(version + 1, std::memory_order_acq_rel);
        for (std::size_t i = 0; i < kWords; ++i) {
            words_[i].store(words[i], std::memory_order_release);
        }
        version_.store(version + 2, std::memory_order_release);
    }
    /// Returns an empty text if a write stays unfinished for long.
    [[nodiscard]] std::string read() const {
        Copy copy;
        return std::string(read(copy));
    }

    static constexpr std::size_t kWords = kBytes / sizeof(std::uint64_t);
    using Copy = std::array<std::uint64_t, kWords>;
    /// Like read(), but writes the text to memory of the caller. For signal handlers: this function allocates nothing
    /// and does not wait.
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

/// Facts about one rank for the other ranks of its host, apart from collectives. The block lies in the arena; `rueda
/// top` reads it too.
struct alignas(kCacheLine) RankBlock {
    Attention<StdAtomics> attention;

    alignas(kCacheLine) std::atomic<std::uint32_t> state{0};  ///< RankState
    /// 1 after an abort, when this rank no longer writes to other ranks' memory.
    std::atomic<std::uint32_t> left_batches{0};
    std::atomic<std::int32_t> pid{0};  ///< pid in the rank's own pid namespace
    std::atomic<std::int32_t> global_rank{-1};
    std::atomic<std::uint64_t> process_start{0};  ///< start time of the process (field 22 of /proc/<pid>/stat), because
                                                  ///< a pid may be reused
    std::atomic<std::int64_t> heartbeat_ns{0};    ///< time of the background thread's last turn, by CLOCK_MONOTONIC
    std::atomic<std::uint32_t> ended_job{0};      ///< 1 if this rank itself has ended the job, and will end soon
    std::atomic<std::int64_t> step{-1};           ///< the training step that the rank began last; -1 if the rank has
                                                  ///< reported none
    std::atomic<std::int64_t> busy_since_ns{0};   ///< when the scope in `busy` began; 0 outside

    alignas(kCacheLine) SharedText<128> busy;        ///< innermost declared scope, "" outside
    alignas(kCacheLine) SharedText<256> end_reason;  ///< why this rank ended; empty if it could not write the reason
                                                     ///< any more

    // The send or receive that this rank has waited for longest, if it has waited for long. The other ranks of the host
    // read it for their reports.
    alignas(kCacheLine) SharedText<104> message;
    std::atomic<std::int64_t> message_since_ns{0};
    std::atomic<std::uint64_t> message_kind{0};  ///< core/diagnostics/awaited_message.hpp; 0: there is none
};

/// Whether a rank can take the stack of its main thread.
enum class StackOffer : std::uint32_t {
    none = 0,     ///< stacks are switched off, or the rank does not take part in them
    offered = 1,  ///< it answers questions
    refused = 2,  ///< it cannot; `StackBlock::text` says why
};

/// Through this block, other ranks of the host ask a rank for the stack of its main thread, and the rank answers
/// (docs/design/0015-stacks.md). A block of zeros means StackOffer::none.
struct alignas(kCacheLine) StackBlock {
    std::atomic<std::uint32_t> offer{0};  ///< StackOffer. Release by its rank, acquire by readers
    /// The number of questions. Any rank adds one. Release; partner: acquire by the rank's background thread.
    std::atomic<std::uint32_t> asked{0};
    /// The number of the newest question that `text` answers. Release by its rank; acquire by the asking rank.
    std::atomic<std::uint32_t> answered{0};
    SharedText<4096> text;
};

/// The data at the beginning of the arena.
struct alignas(4096) ControlBlock {
    /// Increases with every change of the arena's layout. Version 11 added the flight recorder, the stacks, how long a
    /// rank has been in its declared scope, and the message that it waits for.
    static constexpr std::uint32_t kLayoutVersion = 12;
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
    std::uint64_t resident_bytes = 0;   ///< per rank
    std::uint64_t recorder_offset = 0;  ///< of rank 0's RankRecorder; those of the other ranks follow
    std::uint64_t recorder_bytes = 0;   ///< per rank; 0 in the arena of a process set, whose ranks record in the job's

    AbortBlock<StdAtomics> abort;
    RankBlock ranks[kMaxLocalRanks];

    [[nodiscard]] StackBlock& stack_of(std::uint32_t member) {
        return *reinterpret_cast<StackBlock*>(stacks + member * sizeof(StackBlock));
    }
    /// The StackBlocks. They are bytes, so that the constructor does not write to memory that few jobs use: an arena
    /// begins as zeros.
    alignas(kCacheLine) std::byte stacks[kMaxLocalRanks * sizeof(StackBlock)];
};

static_assert(std::is_trivially_destructible_v<ControlBlock>);
static_assert(std::is_trivially_destructible_v<StackBlock>);

/// The blocks of the ranks that form a group on one host, by member, and the abort block of the job. They lie in the
/// arena of the whole job, which may have more ranks than the group.
class HostBlocks {
public:
    /// Makes the view of the whole job.
    HostBlocks(ControlBlock& control) : abort_(&control.abort) {  // NOLINT(google-explicit-constructor): all it holds
        for (std::size_t member = 0; member < blocks_.size(); ++member) {
            blocks_[member] = &control.ranks[member];
            stacks_[member] = &control.stack_of(static_cast<std::uint32_t>(member));
        }
    }
    /// Makes the view of a group. Member m of the group is member `members[m]` of `job`.
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
