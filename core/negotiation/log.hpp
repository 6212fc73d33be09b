// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The Rueda authors
#pragma once

#include <algorithm>
#include <atomic>
#include <cstdint>
#include <optional>
#include <span>

#include "core/negotiation/foreign.hpp"
#include "core/negotiation/layout.hpp"

namespace rueda::core {

/// The maximum number of entries in a batch. It limits the work of starting a batch. For comparison: ResNet-50 has 161
/// tensors, BERT-large has 398.
inline constexpr std::uint64_t kBatchEntries = 1024;

/// The ordered list of calls, which is the same on every member. The list is a ring of entries in shared memory. A rank
/// first reserves a free entry (it *claims* the entry). Then it writes the entry, and then it publishes the entry. The
/// entry's word `sequence` shows the last of these steps. docs/design/0001-negotiation.md explains why an append never
/// blocks, and why the first entry of a batch can store the batch's end.
///
/// Threads: any thread may append; only the thread that drives progress reads and closes batches.
template <class Atomics>
class Log {
public:
    struct Entry {
        EntryKind kind = EntryKind::call;
        std::uint32_t slot = kNoSlot;
        std::uint32_t rank = 0;
        std::uint32_t ticket = 0;
        Fusion fusion = Fusion::alone;
        std::uint64_t bytes = 0;
        std::uint32_t attachment = 0;
        std::uint32_t uncounted = 0;
    };
    static constexpr std::uint64_t kOpen = 0;
    static constexpr std::uint64_t kNowhere =
        ~std::uint64_t{0};  ///< No entry was free. This cannot happen if all ranks are correct.

    /// `rank` is the rank that appends; reading does not use it.
    explicit Log(NegotiationMemory<Atomics> memory, std::uint32_t rank = 0) : memory_(memory), rank_(rank) {}

    /// Publishes `entry` at the end of the log and returns its position, or kNowhere. Call this under the rank's
    /// enqueue lock (the mutex under which a rank announces). If the caller knows that a batch begins at a certain
    /// position, it passes this position as `begins_batch_at`. If the entry gets exactly this position, it becomes a
    /// closed batch of its own.
    ///
    /// This function finds the end of the log by claiming the first free entry. A tail counter would be one more cache
    /// line that moves between the cores for every call. With a tail counter, a blocking allreduce of 4 bytes took 0.9
    /// µs instead of 0.7 µs.
    std::uint64_t append(const Entry& entry, std::uint64_t begins_batch_at = kNowhere) {
        const std::uint64_t position = claim();
        if (position == kNowhere) [[unlikely]] {
            return kNowhere;
        }
        LogEntry<Atomics>& place = write(position, entry);
        if (position == begins_batch_at) {
            place.end.store(position + 1, std::memory_order_relaxed);  // this store may be relaxed, because the store
                                                                       // of `sequence` publishes `end`
        }
        // This store is seq_cst. A thread that is about to sleep first marks itself as asleep in its attention word
        // (base::Attention), and then reads `sequence` in is_published(). This rank first stores `sequence`, and then
        // reads the attention word. So either the thread sees this entry, or this rank sees that it must wake the
        // thread.
        place.sequence.store(position + 1, std::memory_order_seq_cst);
        return position;
    }

    /// Appends a whole closed batch, and returns its first position, or kNowhere. During this call, no other thread may
    /// append to the log, because the entries must be contiguous. `entries` must not be empty. Throws nothing.
    std::uint64_t append_batch(std::span<const Entry> entries) {
        const std::uint64_t begin = claim();
        if (begin == kNowhere) {
            return kNowhere;
        }
        for (std::size_t i = 1; i < entries.size(); ++i) {
            const std::uint64_t position = claim();
            if (position == kNowhere) {
                return kNowhere;
            }
            write(position, entries[i]).sequence.store(position + 1, std::memory_order_seq_cst);
        }
        LogEntry<Atomics>& first = write(begin, entries.front());
        first.end.store(begin + entries.size(), std::memory_order_relaxed);
        // The first entry is published last: a rank that sees it in is_published() sees all entries and the end of the
        // batch. The store is seq_cst, for the same reason as in append().
        first.sequence.store(begin + 1, std::memory_order_seq_cst);
        return begin;
    }

    /// Returns the first position at or after `from` that no member has claimed. Searches at most one round of the
    /// ring. `from` must not be after the end of the log.
    [[nodiscard]] std::uint64_t end(std::uint64_t from) const {
        std::uint64_t position = from;
        while (round_of(memory_.entry(position).sequence.load(std::memory_order_relaxed)) > position &&
               position - from < memory_.extent().log_entries()) {
            ++position;
        }
        return position;
    }
    /// If a member has claimed the entry at `position` and not published it yet, returns this member. Until that member
    /// publishes the entry, no rank can read the later entries.
    [[nodiscard]] std::optional<std::uint32_t> claimant(std::uint64_t position) const {
        const std::uint64_t seen = memory_.entry(position).sequence.load(std::memory_order_acquire);
        const auto member = static_cast<std::uint32_t>((seen & ~kClaimed) >> kClaimantShift);
        const bool is_claimed = (seen & kClaimed) != 0 && round_of(seen) == position + 1;
        return is_claimed && member < memory_.extent().members ? std::optional(member) : std::nullopt;
    }
    /// Whether an append found no free entry. This cannot happen if all ranks are correct.
    [[nodiscard]] bool is_damaged() const { return is_damaged_; }

    /// Like end(from), but begins at a position before which all entries are taken, as far as this rank knows.
    [[nodiscard]] std::uint64_t end() const {
        return end(std::max(memory_.cursor(rank_).position.load(std::memory_order_acquire), append_from_));
    }

    [[nodiscard]] bool is_published(std::uint64_t position) const {
        return memory_.entry(position).sequence.load(std::memory_order_seq_cst) == position + 1;
    }
    /// Returns a copy of the entry at a published position. Another process wrote the entry, so the caller must check
    /// the copy.
    [[nodiscard]] Entry read(std::uint64_t position) const {
        const LogEntry<Atomics>& place = memory_.entry(position);
        return {static_cast<EntryKind>(copy_once(place.kind)),
                copy_once(place.slot),
                copy_once(place.rank),
                copy_once(place.ticket),
                static_cast<Fusion>(copy_once(place.fusion)),
                copy_once(place.bytes),
                copy_once(place.attachment),
                copy_once(place.uncounted)};
    }

    /// Returns the kind and the slot of the entry at any position. A thread may call this even if its rank has already
    /// read past the position. In this case another rank may overwrite the entry during the read. So this function
    /// checks before and after the read that the entry is published at this position; otherwise it returns nothing.
    [[nodiscard]] std::optional<Entry> peek(std::uint64_t position) const {
        LogEntry<Atomics>& place = memory_.entry(position);
        if (!is_published(position)) {
            return std::nullopt;
        }
        // These acquire loads pair with the release stores in write(). If the loads see values that belong to a later
        // round of the ring, the check below sees that a member has claimed the entry again.
        const Entry entry{
            static_cast<EntryKind>(std::atomic_ref(place.kind).load(std::memory_order_acquire)),
            std::atomic_ref(place.slot).load(std::memory_order_acquire),
        };
        return is_published(position) ? std::optional(entry) : std::nullopt;
    }

    /// Returns the end of the batch that begins at `begin`, or kOpen.
    [[nodiscard]] std::uint64_t end_of_batch(std::uint64_t begin) const {
        const std::uint64_t end = memory_.entry(begin).end.load(std::memory_order_acquire);
        return end > begin ? end : kOpen;
    }
    /// Closes the batch that begins at `begin`. The batch ends at `proposed_end`, unless another rank has closed it
    /// already. Returns the actual end. The caller must have seen that all entries before `proposed_end` are published.
    std::uint64_t close_batch(std::uint64_t begin, std::uint64_t proposed_end) const {
        auto& end = memory_.entry(begin).end;
        std::uint64_t seen = end.load(std::memory_order_acquire);
        while (seen <= begin) {
            // The exchange is a release. So a rank that reads this end in end_of_batch() also sees that the entries of
            // the batch are published.
            if (end.compare_exchange_strong(seen, proposed_end, std::memory_order_acq_rel, std::memory_order_acquire)) {
                return proposed_end;
            }
        }
        return seen;
    }

    /// Whether a batch can begin at `begin` and end at `end`. Another process wrote these numbers.
    [[nodiscard]] bool is_plausible_end(std::uint64_t begin, std::uint64_t end) const {
        return end > begin && end - begin <= memory_.extent().log_entries();
    }

private:
    /// A member sets this bit in `sequence` when it claims an entry, and clears it when it publishes the entry. The 7
    /// bits below it hold the number of this member, and the lowest 56 bits hold the position + 1. With one entry every
    /// 50 ns, 2^56 positions last for more than a century.
    static constexpr std::uint64_t kClaimed = std::uint64_t{1} << 63;
    static constexpr int kClaimantShift = 56;
    static_assert(base::kMaxLocalRanks <= 1 << (63 - kClaimantShift));
    /// Returns 1 + the position for which the entry was last claimed or published; 0 if it was never claimed. If this
    /// number is at most p, the entry is free for position p.
    [[nodiscard]] static constexpr std::uint64_t round_of(std::uint64_t sequence) {
        return sequence & ((std::uint64_t{1} << kClaimantShift) - 1);
    }
    [[nodiscard]] std::uint64_t claim_of(std::uint64_t position) const {
        return kClaimed | std::uint64_t{rank_} << kClaimantShift | (position + 1);
    }

    /// Fills a claimed entry without publishing it.
    LogEntry<Atomics>& write(std::uint64_t position, const Entry& entry) const {
        LogEntry<Atomics>& place = memory_.entry(position);
        // These release stores pair with the acquire loads in peek(). A thread in peek() may still be reading the entry
        // of the previous round. If it sees the new values, it also sees that a member has claimed the entry.
        std::atomic_ref(place.kind).store(static_cast<std::uint32_t>(entry.kind), std::memory_order_release);
        std::atomic_ref(place.slot).store(entry.slot, std::memory_order_release);
        place.rank = entry.rank;
        place.ticket = entry.ticket;
        place.fusion = static_cast<std::uint32_t>(entry.fusion);
        place.bytes = entry.bytes;
        place.attachment = entry.attachment;
        place.uncounted = entry.uncounted;
        return place;
    }

    std::uint64_t claim() {
        // This rank knows of two ranges of entries that are taken: the entries before its cursor, and the entries
        // before the end of its last append.
        const std::uint64_t cursor = memory_.cursor(rank_).position.load(std::memory_order_acquire);
        std::uint64_t position = std::max(cursor, append_from_);
        // The number of entries that this loop has passed. If a whole round of the ring has no free entry, the log is
        // damaged, or other ranks append faster than this loop runs.
        std::uint64_t passed = 0;
        for (;; ++position) {
            auto& sequence = memory_.entry(position).sequence;
            // The load is an acquire, because all ranks must have read the entry's previous content before this rank
            // overwrites it. The load sees the call of a later operation. Each rank announced that operation only after
            // it had read the content, and the call was appended only after all ranks had announced.
            std::uint64_t seen = sequence.load(std::memory_order_acquire);
            if (round_of(seen) <= position &&
                sequence.compare_exchange_strong(seen, claim_of(position), std::memory_order_acq_rel,
                                                 std::memory_order_acquire)) {
                append_from_ = position + 1;
                return position;
            }
            if (++passed > memory_.extent().log_entries()) {
                is_damaged_ = true;
                return kNowhere;
            }
        }
    }

    NegotiationMemory<Atomics> memory_;
    std::uint32_t rank_;
    std::uint64_t append_from_ = 0;
    bool is_damaged_ = false;
};

}  // namespace rueda::core
