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

/// Most entries of a batch. A bound on the work of starting it; ResNet-50 has 161 tensors, BERT-large 398.
inline constexpr std::uint64_t kBatchEntries = 1024;

/// The ordered list of what is called, the same on every member: a ring of entries that publish themselves.
/// Why an append never blocks, and why a batch's end can stand in its first entry: docs/design/0001-negotiation.md.
///
/// Threads: append by anybody; read and close by whoever drives a rank's engine.
template <class Atomics>
class Log {
public:
    struct Entry {
        EntryKind kind = EntryKind::call;
        std::uint32_t slot = kNoSlot;
        std::uint32_t rank = 0;
        std::uint32_t ticket = 0;
        std::uint32_t operation = 0;
        std::uint64_t bytes = 0;
        std::uint32_t attachment = 0;
        std::uint32_t uncounted = 0;
    };
    static constexpr std::uint64_t kOpen = 0;
    static constexpr std::uint64_t kNowhere =
        ~std::uint64_t{0};  ///< no entry was free, which no working rank brings about

    /// For appending as `rank`; who only reads may be any.
    explicit Log(NegotiationMemory<Atomics> memory, std::uint32_t rank = 0) : memory_(memory), rank_(rank) {}

    /// Publishes `entry` at the end and returns its position, or kNowhere. If that is `begins_batch_at`, a position
    /// where a batch is known to begin, the batch is closed behind it at once. Under the rank's enqueue lock.
    ///
    /// The end is found by claiming the first free entry. A tail counter would be one more line that travels between
    /// the cores for every call (measured: 0.7 instead of 0.9 µs for a blocking allreduce of 4 bytes).
    std::uint64_t append(const Entry& entry, std::uint64_t begins_batch_at = kNowhere) {
        const std::uint64_t position = claim();
        if (position == kNowhere) [[unlikely]] {
            return kNowhere;
        }
        LogEntry<Atomics>& place = write(position, entry);
        if (position == begins_batch_at) {
            place.end.store(position + 1, std::memory_order_relaxed);  // nobody looks before the publication
        }
        // Partner: is_published(). seq_cst, since sleepers look at it after they wrote their attention.
        place.sequence.store(position + 1, std::memory_order_seq_cst);
        return position;
    }

    /// Appends a whole batch, closed, and returns its first position, or kNowhere. Only of a log that nobody else
    /// appends to: the entries lie together. Not empty. Throws nothing.
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
        // Last, so that who sees the first sees all, and the end: partner is_published(), as in append().
        first.sequence.store(begin + 1, std::memory_order_seq_cst);
        return begin;
    }

    /// The first position, from `from` on, that nobody has claimed, or one ring behind it. `from` is not after the end.
    [[nodiscard]] std::uint64_t end(std::uint64_t from) const {
        std::uint64_t position = from;
        while (round_of(memory_.entry(position).sequence.load(std::memory_order_relaxed)) > position &&
               position - from < memory_.extent().log_entries()) {
            ++position;
        }
        return position;
    }
    /// The member that has claimed an entry and not published it yet. Entries behind it cannot be read before it is.
    [[nodiscard]] std::optional<std::uint32_t> claimant(std::uint64_t position) const {
        const std::uint64_t seen = memory_.entry(position).sequence.load(std::memory_order_acquire);
        const auto member = static_cast<std::uint32_t>((seen & ~kClaimed) >> kClaimantShift);
        const bool is_claimed = (seen & kClaimed) != 0 && round_of(seen) == position + 1;
        return is_claimed && member < memory_.extent().members ? std::optional(member) : std::nullopt;
    }
    /// An append has found no room.
    [[nodiscard]] bool is_damaged() const { return is_damaged_; }

    /// The same, from where this rank knows that nothing is free before.
    [[nodiscard]] std::uint64_t end() const {
        return end(std::max(memory_.cursor(rank_).position.load(std::memory_order_acquire), append_from_));
    }

    [[nodiscard]] bool is_published(std::uint64_t position) const {
        return memory_.entry(position).sequence.load(std::memory_order_seq_cst) == position + 1;
    }
    /// Of a published position: a copy, to be checked.
    [[nodiscard]] Entry read(std::uint64_t position) const {
        const LogEntry<Atomics>& place = memory_.entry(position);
        return {static_cast<EntryKind>(copy_once(place.kind)),
                copy_once(place.slot),
                copy_once(place.rank),
                copy_once(place.ticket),
                copy_once(place.operation),
                copy_once(place.bytes),
                copy_once(place.attachment),
                copy_once(place.uncounted)};
    }

    /// Kind and slot of the entry at any position, for threads whose rank may be past it, and which nobody waits for;
    /// empty unless it is published and was not written over meanwhile.
    [[nodiscard]] std::optional<Entry> peek(std::uint64_t position) const {
        LogEntry<Atomics>& place = memory_.entry(position);
        if (!is_published(position)) {
            return std::nullopt;
        }
        // acquire: who sees a later entry's kind or slot sees its claim at the second look. Partner: append().
        const Entry entry{
            static_cast<EntryKind>(std::atomic_ref(place.kind).load(std::memory_order_acquire)),
            std::atomic_ref(place.slot).load(std::memory_order_acquire),
        };
        return is_published(position) ? std::optional(entry) : std::nullopt;
    }

    /// End of the batch that begins at `begin`, or kOpen.
    [[nodiscard]] std::uint64_t end_of_batch(std::uint64_t begin) const {
        const std::uint64_t end = memory_.entry(begin).end.load(std::memory_order_acquire);
        return end > begin ? end : kOpen;
    }
    /// Ends the batch that begins at `begin` at `proposed_end`, or where another rank has ended it: the return value.
    /// All entries up to `proposed_end` must have been seen published.
    std::uint64_t close_batch(std::uint64_t begin, std::uint64_t proposed_end) const {
        auto& end = memory_.entry(begin).end;
        std::uint64_t seen = end.load(std::memory_order_acquire);
        while (seen <= begin) {
            // release: who reads the end sees what we saw published. Partner: end_of_batch().
            if (end.compare_exchange_strong(seen, proposed_end, std::memory_order_acq_rel, std::memory_order_acquire)) {
                return proposed_end;
            }
        }
        return seen;
    }

    /// A position and an end that another process wrote: usable?
    [[nodiscard]] bool is_plausible_end(std::uint64_t begin, std::uint64_t end) const {
        return end > begin && end - begin <= memory_.extent().log_entries();
    }

private:
    /// Set in `sequence` from the claim to the publication, with the claiming member above the position. 2^56 entries
    /// are more than a century of them every 50 ns.
    static constexpr std::uint64_t kClaimed = std::uint64_t{1} << 63;
    static constexpr int kClaimantShift = 56;
    static_assert(base::kMaxLocalRanks <= 1 << (63 - kClaimantShift));
    /// Greater than p for an entry claimed or published at p (or a ring later), at most p for one that is free for p.
    [[nodiscard]] static constexpr std::uint64_t round_of(std::uint64_t sequence) {
        return sequence & ((std::uint64_t{1} << kClaimantShift) - 1);
    }
    [[nodiscard]] std::uint64_t claim_of(std::uint64_t position) const {
        return kClaimed | std::uint64_t{rank_} << kClaimantShift | (position + 1);
    }

    /// All but the publication, of a claimed entry.
    LogEntry<Atomics>& write(std::uint64_t position, const Entry& entry) const {
        LogEntry<Atomics>& place = memory_.entry(position);
        // Partner: peek(), which may still look at what was here a ring ago. release: who sees these sees the claim.
        std::atomic_ref(place.kind).store(static_cast<std::uint32_t>(entry.kind), std::memory_order_release);
        std::atomic_ref(place.slot).store(entry.slot, std::memory_order_release);
        place.rank = entry.rank;
        place.ticket = entry.ticket;
        place.operation = entry.operation;
        place.bytes = entry.bytes;
        place.attachment = entry.attachment;
        place.uncounted = entry.uncounted;
        return place;
    }

    std::uint64_t claim() {
        // Everything before this rank's cursor is published, and so is what this rank has appended.
        const std::uint64_t cursor = memory_.cursor(rank_).position.load(std::memory_order_acquire);
        std::uint64_t position = std::max(cursor, append_from_);
        std::uint64_t passed = 0;  // more than a ring of them: the end is nowhere, or runs away
        for (;; ++position) {
            auto& sequence = memory_.entry(position).sequence;
            // acquire, of the cursor and of everything passed over: who claims an entry comes after those who read it a
            // ring ago. They arrived since in a call that lies in between, and its appender has seen their arrival.
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
