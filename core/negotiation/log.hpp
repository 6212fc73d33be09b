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

/// The maximum number of entries in a batch. It limits the work of starting a batch. ResNet-50 has 161 tensors,
/// BERT-large 398.
inline constexpr std::uint64_t kBatchEntries = 1024;

/// The log: the ordered list of calls, which is the same on every member. It is a ring of entries, each of which has
/// its own word for publication. docs/design/0001-negotiation.md explains why an append never blocks, and why a batch's
/// end can be stored in its first entry.
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
        ~std::uint64_t{0};  ///< means that no entry was free, which cannot happen if all ranks are correct

    /// `rank` is the rank that appends; it has no effect on reading.
    explicit Log(NegotiationMemory<Atomics> memory, std::uint32_t rank = 0) : memory_(memory), rank_(rank) {}

    /// Publishes `entry` at the end and returns its position, or kNowhere. `begins_batch_at` is a position where a
    /// batch is known to begin: if the entry gets this position, the batch is closed behind the entry at once. Call
    /// this under the rank's enqueue lock.
    ///
    /// This function finds the end of the log by claiming the first free entry. A tail counter would be one more cache
    /// line that moves between the cores for every call (measured: 0.9 instead of 0.7 µs for a blocking allreduce of 4
    /// bytes).
    std::uint64_t append(const Entry& entry, std::uint64_t begins_batch_at = kNowhere) {
        const std::uint64_t position = claim();
        if (position == kNowhere) [[unlikely]] {
            return kNowhere;
        }
        LogEntry<Atomics>& place = write(position, entry);
        if (position == begins_batch_at) {
            place.end.store(position + 1, std::memory_order_relaxed);  // no rank reads it before the publication
        }
        // Pairs with is_published(). seq_cst, because sleeping threads read it after they wrote their attention word.
        place.sequence.store(position + 1, std::memory_order_seq_cst);
        return position;
    }

    /// Appends a whole batch that is already closed, and returns its first position, or kNowhere. No other thread may
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
        // This store comes last, so that a rank that sees the first entry sees all entries and the end. Pairs with
        // is_published(), as in append().
        first.sequence.store(begin + 1, std::memory_order_seq_cst);
        return begin;
    }

    /// Returns the first position from `from` on that no member has claimed. It searches at most one ring. `from` must
    /// not be after the end.
    [[nodiscard]] std::uint64_t end(std::uint64_t from) const {
        std::uint64_t position = from;
        while (round_of(memory_.entry(position).sequence.load(std::memory_order_relaxed)) > position &&
               position - from < memory_.extent().log_entries()) {
            ++position;
        }
        return position;
    }
    /// Returns the member that has claimed an entry and not published it yet. The entries behind it cannot be read
    /// before it is published.
    [[nodiscard]] std::optional<std::uint32_t> claimant(std::uint64_t position) const {
        const std::uint64_t seen = memory_.entry(position).sequence.load(std::memory_order_acquire);
        const auto member = static_cast<std::uint32_t>((seen & ~kClaimed) >> kClaimantShift);
        const bool is_claimed = (seen & kClaimed) != 0 && round_of(seen) == position + 1;
        return is_claimed && member < memory_.extent().members ? std::optional(member) : std::nullopt;
    }
    /// Whether an append found no free entry, which no correct rank causes.
    [[nodiscard]] bool is_damaged() const { return is_damaged_; }

    /// Like end(from), starting from the latest position before which this rank knows that no entry is free.
    [[nodiscard]] std::uint64_t end() const {
        return end(std::max(memory_.cursor(rank_).position.load(std::memory_order_acquire), append_from_));
    }

    [[nodiscard]] bool is_published(std::uint64_t position) const {
        return memory_.entry(position).sequence.load(std::memory_order_seq_cst) == position + 1;
    }
    /// Returns a copy of the entry at a published position. The caller must check it.
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

    /// Returns the kind and the slot of the entry at any position. It is for threads whose rank may be past that
    /// position, and for which no rank waits. Returns nothing unless the entry is published and was not overwritten
    /// meanwhile.
    [[nodiscard]] std::optional<Entry> peek(std::uint64_t position) const {
        LogEntry<Atomics>& place = memory_.entry(position);
        if (!is_published(position)) {
            return std::nullopt;
        }
        // Acquire: pairs with append(). If a thread reads the kind or slot of a later entry, it also sees that entry's
        // claim when it checks again below.
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
    /// Closes the batch that begins at `begin`. The batch ends at `proposed_end`, unless another rank has already
    /// closed it at another position. Returns the actual end. The caller must have seen that all entries up to
    /// `proposed_end` are published.
    std::uint64_t close_batch(std::uint64_t begin, std::uint64_t proposed_end) const {
        auto& end = memory_.entry(begin).end;
        std::uint64_t seen = end.load(std::memory_order_acquire);
        while (seen <= begin) {
            // Release: pairs with end_of_batch(). A rank that reads the end sees everything that this rank saw
            // published.
            if (end.compare_exchange_strong(seen, proposed_end, std::memory_order_acq_rel, std::memory_order_acquire)) {
                return proposed_end;
            }
        }
        return seen;
    }

    /// Checks a position and an end that another process wrote.
    [[nodiscard]] bool is_plausible_end(std::uint64_t begin, std::uint64_t end) const {
        return end > begin && end - begin <= memory_.extent().log_entries();
    }

private:
    /// This bit is set in `sequence` from the claim to the publication. The number of the claiming member is between
    /// the position and this bit. With one entry every 50 ns, 2^56 entries last for more than a century.
    static constexpr std::uint64_t kClaimed = std::uint64_t{1} << 63;
    static constexpr int kClaimantShift = 56;
    static_assert(base::kMaxLocalRanks <= 1 << (63 - kClaimantShift));
    /// For position p: the result is greater than p if the entry is claimed or published at p (or a ring later). It is
    /// at most p if the entry is free for p.
    [[nodiscard]] static constexpr std::uint64_t round_of(std::uint64_t sequence) {
        return sequence & ((std::uint64_t{1} << kClaimantShift) - 1);
    }
    [[nodiscard]] std::uint64_t claim_of(std::uint64_t position) const {
        return kClaimed | std::uint64_t{rank_} << kClaimantShift | (position + 1);
    }

    /// Writes all fields into a claimed entry, without publishing it.
    LogEntry<Atomics>& write(std::uint64_t position, const Entry& entry) const {
        LogEntry<Atomics>& place = memory_.entry(position);
        // Pairs with peek(), which may still read the entry that was here one ring ago. Release: a thread that sees the
        // new values also sees the claim.
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
        // All entries before this rank's cursor are published, and so are all entries that this rank has appended.
        const std::uint64_t cursor = memory_.cursor(rank_).position.load(std::memory_order_acquire);
        std::uint64_t position = std::max(cursor, append_from_);
        // The number of entries passed. More than a ring means that there is no end, or that the end moves faster than
        // this loop.
        std::uint64_t passed = 0;
        for (;; ++position) {
            auto& sequence = memory_.entry(position).sequence;
            // Acquire, for the cursor and for every entry passed: this claim must come after all ranks have read the
            // entry's previous content, one ring ago. This is so because those ranks have arrived in a call since then,
            // and the rank that appended that call saw their arrival.
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
