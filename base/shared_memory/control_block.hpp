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

/// The maximum number of ranks on one host: the number of bits of an arrival mask.
inline constexpr int kMaxLocalRanks = 64;

/// The state of a rank, as the other ranks see it.
enum class RankState : std::uint32_t {
    absent = 0,         ///< has not attached yet
    running = 1,        ///< between init and shutdown
    shutting_down = 2,  ///< has announced its shutdown and serves the others
    left = 3,           ///< its process may end at any time; its death means nothing
    dead = 4,           ///< written by the rank that found it dead
};

/// A short text that its rank writes and others may read at any time. It is a sequence lock. It consists of atomics, so
/// that a torn read is defined, and is noticed. Threads: one writer (its rank serialises), any readers.
template <std::size_t kBytes>
class SharedText {
    static_assert(kBytes % sizeof(std::uint64_t) == 0);

public:
    void write(std::string_view text) {
        std::array<std::uint64_t, kWords> words{};
        copy_shortened(text, {reinterpret_cast<char*>(words.data()), kBytes - 1});
        const std::uint32_t version = version_.load(std::memory_order_relaxed);
        // acq_rel read-modify-writes instead of fences, because ThreadSanitizer does not model standalone fences.
        // Partner: read().
        version_.exchange(version + 1, std::memory_order_acq_rel);
        for (std::size_t i = 0; i < kWords; ++i) {
            words_[i].store(words[i], std::memory_order_release);
        }
        version_.store(version + 2, std::memory_order_release);
    }
    /// Returns "" if the writer stays in the middle of a write for long.
    [[nodiscard]] std::string read() const {
        Copy copy;
        return std::string(read(copy));
    }

    static constexpr std::size_t kWords = kBytes / sizeof(std::uint64_t);
    using Copy = std::array<std::uint64_t, kWords>;
    /// The same, but writes to memory of the reader. For signal handlers: it allocates nothing and does not wait.
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

/// What one rank tells the other ranks of its host, apart from collectives. It lies in the arena; `rueda top` reads it
/// too.
struct alignas(kCacheLine) RankBlock {
    Attention<StdAtomics> attention;

    alignas(kCacheLine) std::atomic<std::uint32_t> state{0};  ///< RankState
    /// 1: after an abort, this rank no longer writes to other ranks' memory.
    std::atomic<std::uint32_t> left_batches{0};
    std::atomic<std::int32_t> pid{0};  ///< in the rank's own pid namespace
    std::atomic<std::int32_t> global_rank{-1};
    std::atomic<std::uint64_t> process_start{0};  ///< field 22 of /proc/<pid>/stat: a pid may be reused
    std::atomic<std::int64_t> heartbeat_ns{0};    ///< CLOCK_MONOTONIC of the background thread's last turn
    std::atomic<std::uint32_t> ended_job{0};      ///< 1: this rank itself has ended the job, and will end soon
    std::atomic<std::int64_t> step{-1};           ///< the training step that the rank began last; -1: the rank has not
                                                  ///< reported any
    std::atomic<std::int64_t> busy_since_ns{0};   ///< when the scope in `busy` began; 0 outside

    alignas(kCacheLine) SharedText<128> busy;        ///< innermost declared scope, "" outside
    alignas(kCacheLine) SharedText<256> end_reason;  ///< why this rank ended, if it could still write the reason

    // The send or receive that this rank has waited for longest, if it has waited for long. The other ranks of the host
    // read it for their reports.
    alignas(kCacheLine) SharedText<104> message;
    std::atomic<std::int64_t> message_since_ns{0};
    std::atomic<std::uint64_t> message_kind{0};  ///< core/diagnostics/awaited_message.hpp; 0: there is none
};

/// The first page of the arena.
struct alignas(4096) ControlBlock {
    /// Grows with every change of the layout of the arena. 11: how long a rank has been in its declared scope, and
    /// the message that it waits for.
    static constexpr std::uint32_t kLayoutVersion = 11;
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
    std::uint64_t resident_bytes = 0;  ///< per rank

    AbortBlock<StdAtomics> abort;
    RankBlock ranks[kMaxLocalRanks];
};

static_assert(std::is_trivially_destructible_v<ControlBlock>);

/// The blocks of those ranks of a host that form a group, by member, and the abort block of the job. They lie in the
/// arena of the whole job, which may have more members.
class HostBlocks {
public:
    /// The blocks of the whole job.
    HostBlocks(ControlBlock& control) : abort_(&control.abort) {  // NOLINT(google-explicit-constructor): all it holds
        for (std::size_t member = 0; member < blocks_.size(); ++member) {
            blocks_[member] = &control.ranks[member];
        }
    }
    /// Member m of the group is member `members[m]` of `job`.
    HostBlocks(const HostBlocks& job, std::span<const std::uint32_t> members) : abort_(job.abort_) {
        for (std::size_t member = 0; member < members.size(); ++member) {
            blocks_[member] = job.blocks_[members[member]];
        }
    }
    [[nodiscard]] RankBlock& of(std::uint32_t member) const { return *blocks_[member]; }
    [[nodiscard]] AbortBlock<StdAtomics>& abort() const { return *abort_; }

private:
    AbortBlock<StdAtomics>* abort_;
    std::array<RankBlock*, kMaxLocalRanks> blocks_{};
};
static_assert(sizeof(Attention<StdAtomics>) == kCacheLine);

}  // namespace rueda::base
