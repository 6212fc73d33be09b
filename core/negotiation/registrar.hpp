// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The Rueda authors
#pragma once

#include <algorithm>
#include <bit>
#include <cstdint>
#include <cstring>
#include <functional>
#include <string_view>

#include "base/status.hpp"
#include "core/negotiation/layout.hpp"
#include "core/negotiation/log.hpp"

namespace rueda::core {

/// The sequential part of the negotiation: names, slots, comparison, shutdown. Not a thread but a role: whoever posts
/// into an idle registrar is it until nothing is left (docs/design/0001-negotiation.md, "The registrar").
///
/// Threads: post() and run_if_idle() by any thread of a rank under that rank's enqueue lock. The tables in the arena
/// are touched by one registrar at a time; `SetHeader::requests` hands them on (acq_rel).
template <class Atomics>
class Registrar {
public:
    using Memory = NegotiationMemory<Atomics>;
    using Record = MailboxRecord<Atomics>;

    /// What the registrar needs from outside the arena.
    struct Environment {
        /// May the table grow by so many bytes? Asked before memory is touched.
        std::function<Status(std::uint64_t bytes)> may_grow = [](std::uint64_t) { return Status(); };
    };

    Registrar(Memory memory, std::uint32_t rank, Environment environment)
        : memory_(memory), log_(memory, rank), rank_(rank), environment_(std::move(environment)) {}

    /// A free record of this rank's mailbox, or null while it is full: try again once the log has moved.
    [[nodiscard]] Record* next_record() {
        const auto& mailbox = memory_.mailbox(rank_);
        const std::uint64_t posted = mailbox.posted.load(std::memory_order_relaxed);
        if (posted - mailbox.taken.load(std::memory_order_acquire) == memory_.extent().mailbox_records) {
            return nullptr;
        }
        return &memory_.mailbox_record(rank_, posted);
    }

    /// Publishes the record that next_record() gave, and does what is to be done if nobody else is at it.
    /// Returns how many entries were appended. A failure ends the Runtime.
    Result<std::uint64_t> post() {
        auto& mailbox = memory_.mailbox(rank_);
        mailbox.posted.store(mailbox.posted.load(std::memory_order_relaxed) + 1, std::memory_order_release);
        appended_ = 0;
        if (memory_.header().requests.fetch_add(1, std::memory_order_acq_rel) == 0) {
            RUEDA_RETURN_IF_FAILED(run());
        }
        return appended_;
    }

private:
    static constexpr std::uint32_t kTombstone = 0xFFFFFFFF;  // in a name bucket; 0 is empty, else slot + 1
    static constexpr std::uint32_t kReclaimAtOnce = 16;      // slots per attempt: bounds the pause of one announcement

    /// Handles everything that was posted before the swap to 0 succeeds.
    Status run() {
        auto& requests = memory_.header().requests;
        std::uint64_t seen = 1;
        do {
            for (std::uint32_t member = 0; member < memory_.extent().members; ++member) {
                RUEDA_RETURN_IF_FAILED(empty_mailbox(member));
            }
        } while (!requests.compare_exchange_strong(seen, 0, std::memory_order_acq_rel, std::memory_order_acquire));
        return {};
    }

    Status empty_mailbox(std::uint32_t member) {
        auto& mailbox = memory_.mailbox(member);
        std::uint64_t taken = mailbox.taken.load(std::memory_order_relaxed);
        while (taken != mailbox.posted.load(std::memory_order_acquire)) {
            RUEDA_RETURN_IF_FAILED(handle(member, memory_.mailbox_record(member, taken)));
            mailbox.taken.store(++taken, std::memory_order_release);  // partner: next_record()
        }
        return {};
    }

    Status handle(std::uint32_t member, const Record& record) {
        switch (static_cast<RequestKind>(record.kind)) {
            case RequestKind::announce:
                return announce(member, record);
            case RequestKind::resolve:
                return resolve(record.slot, record.generation);
            case RequestKind::shut_down:
                shut_down(member);
                return {};
        }
        return failure(ErrorCode::internal, "rank {} posted a request of unknown kind {}", member, record.kind);
    }

    // ---- full announcements -------------------------------------------------------------------------------------

    Status announce(std::uint32_t member, const Record& record) {
        if (record.name_bytes == 0 || record.name_bytes > RUEDA_MAX_NAME || !is_plausible(record.place.metadata)) {
            return failure(ErrorCode::internal,
                           "rank {} announced a tensor with a name of {} bytes or metadata that no "
                           "working rank writes",
                           member, record.name_bytes);
        }
        if (memory_.header().shut_down_members != 0) {
            append({EntryKind::refused, kNoSlot, member, record.ticket});
            return {};
        }
        const std::string_view name(record.name, record.name_bytes);
        std::uint32_t slot = find(name, record.name_hash);
        if (slot == kNoSlot) {
            Result<std::uint32_t> taken = take_slot();
            RUEDA_RETURN_IF_FAILED(taken.status());
            slot = taken.value();
            open(slot, name, record);
        }
        SlotRecord& page = memory_.record(slot);
        const std::uint64_t bit = std::uint64_t{1} << member;
        if (page.state != static_cast<std::uint32_t>(SlotState::first_sight) || (page.arrived & bit) != 0) {
            return failure(ErrorCode::internal, "rank {} announced '{}' in full, but its slot {} is in state {}",
                           member, name, slot, page.state);
        }
        page.arrived |= bit;
        memory_.place(slot, member, 0).copy_from(record.place);
        if (std::popcount(page.arrived) == static_cast<int>(memory_.extent().members)) {
            complete_first_sight(slot);
        }
        return {};
    }

    void open(std::uint32_t slot, std::string_view name, const Record& record) {
        SlotRecord& page = memory_.record(slot);
        forget_stamps(slot);
        page.state = static_cast<std::uint32_t>(SlotState::first_sight);
        page.arrived = 0;
        page.metadata = record.place.metadata;
        page.name_hash = record.name_hash;
        page.name_bytes = static_cast<std::uint32_t>(name.size());
        std::copy(name.begin(), name.end(), page.name);
        memory_.label(slot).open(name);
        insert(slot);
    }

    /// An earlier use of the number left them, and generations begin anew. For the stall monitor, which sees this
    /// before the label's new use.
    void forget_stamps(std::uint32_t slot) {
        if (memory_.label(slot).state().use == 0) {
            return;  // fresh
        }
        for (std::uint32_t member = 0; member < memory_.extent().members; ++member) {
            memory_.place(slot, member, 0).stamp.store(0, std::memory_order_relaxed);
            memory_.place(slot, member, 1).stamp.store(0, std::memory_order_relaxed);
        }
    }

    void set_state(std::uint32_t slot, SlotState state) {
        memory_.record(slot).state = static_cast<std::uint32_t>(state);
        memory_.label(slot).set(state);
    }

    void complete_first_sight(std::uint32_t slot) {
        SlotRecord& page = memory_.record(slot);
        if (members_agree(slot, 0)) {
            set_state(slot, SlotState::bound);
            append_call(EntryKind::first_call, slot, page.metadata);
        } else {
            retire(slot, append({EntryKind::mismatch, slot}));
        }
    }

    /// Last arriver's request: the generation is complete, and somebody's metadata changed.
    Status resolve(std::uint32_t slot, std::uint64_t generation) {
        if (slot >= memory_.extent().slots ||
            memory_.record(slot).state != static_cast<std::uint32_t>(SlotState::bound)) {
            return failure(ErrorCode::internal, "a rank asked to compare slot {}, which is not bound", slot);
        }
        const bool named = slot >= memory_.extent().unnamed_slots;
        if (members_agree(slot, generation)) {
            const std::uint64_t position = append_call(named ? EntryKind::changed_call : EntryKind::call, slot,
                                                       announced_metadata(memory_, slot, 0, generation));
            if (named) {
                retire(slot, position);
            }
            return {};
        }
        const std::uint64_t position = append({EntryKind::mismatch, slot});
        if (named) {
            retire(slot, position);
        }
        return {};
    }

    [[nodiscard]] bool members_agree(std::uint32_t slot, std::uint64_t generation) const {
        const Metadata& first = announced_metadata(memory_, slot, 0, generation);
        for (std::uint32_t member = 1; member < memory_.extent().members; ++member) {
            if (!agree(first, announced_metadata(memory_, slot, member, generation))) {
                return false;
            }
        }
        return true;
    }

public:
    /// What `member` meant with its announcement of a complete generation.
    [[nodiscard]] static const Metadata& announced_metadata(const Memory& memory, std::uint32_t slot,
                                                            std::uint32_t member, std::uint64_t generation) {
        const Place<Atomics>& place = memory.place(slot, member, generation);
        return (place.flags & Place<Atomics>::kMetadata) != 0 ? place.metadata : memory.record(slot).metadata;
    }

private:
    // ---- the log ------------------------------------------------------------------------------------------------

    std::uint64_t append(const typename Log<Atomics>::Entry& entry) {
        ++appended_;
        return log_.append(entry);
    }
    std::uint64_t append_call(EntryKind kind, std::uint32_t slot, const Metadata& metadata) {
        const std::uint64_t position = append({kind, slot, 0, 0, metadata.operation, bytes_of(metadata)});
        memory_.arrivals(slot).last_called.store(position, std::memory_order_relaxed);
        return position;
    }

    // ---- shutdown -----------------------------------------------------------------------------------------------

    void shut_down(std::uint32_t member) {
        SetHeader<Atomics>& header = memory_.header();
        const bool first = header.shut_down_members == 0;
        header.shut_down_members |= std::uint64_t{1} << member;
        if (first) {
            header.first_shut_down.store(member, std::memory_order_relaxed);  // published by the next store
        }
        // Enqueuing ranks look at this copy; they may be late, then their announcement meets a retired slot or us.
        header.shut_down.store(header.shut_down_members, std::memory_order_release);
        if (first) {
            fail_incomplete_slots(member);
        }
        if (std::popcount(header.shut_down_members) == static_cast<int>(memory_.extent().members)) {
            header.closed = 1;
            append({EntryKind::closed});
        }
    }

    /// From here on nothing can become complete: every slot is closed to arrivals, and who waits in one is told.
    void fail_incomplete_slots(std::uint32_t member) {
        const std::uint32_t high = memory_.header().high_slot.load(std::memory_order_relaxed);
        for (std::uint32_t slot = 0; slot < high; ++slot) {
            SlotRecord& page = memory_.record(slot);
            const auto state = static_cast<SlotState>(page.state);
            if (state != SlotState::bound && state != SlotState::first_sight) {
                continue;
            }
            const std::uint64_t word =
                memory_.arrivals(slot).count.fetch_or(ArrivalCount::kRetired, std::memory_order_acq_rel);
            const bool incomplete =
                state == SlotState::first_sight || ArrivalCount::arrivals(word) % memory_.extent().members != 0;
            if (incomplete) {
                const std::uint64_t position = append({EntryKind::failed, slot, member});
                if (slot >= memory_.extent().unnamed_slots) {
                    retire(slot, position);
                }
            }
        }
    }

    // ---- slots --------------------------------------------------------------------------------------------------

    /// A number for a new name. If none can be had, the Runtime ends: ranks may be pending on different names, and
    /// waiting would deadlock them.
    Result<std::uint32_t> take_slot() {
        SetHeader<Atomics>& header = memory_.header();
        reuse_passed_slots();
        if (available() <= header.slot_limit / 8) {
            reclaim(header.slot_limit < memory_.extent().slots);
        }
        if (available() == 0) {
            RUEDA_RETURN_IF_FAILED(grow());
        }
        if (header.free_count > 0) {
            return memory_.free_slot(--header.free_count);
        }
        const std::uint32_t fresh = header.high_slot.load(std::memory_order_relaxed);
        header.high_slot.store(fresh + 1, std::memory_order_release);  // partner: the stall monitor
        return fresh;
    }

    [[nodiscard]] std::uint32_t available() const {
        const SetHeader<Atomics>& header = memory_.header();
        const std::uint32_t high = header.high_slot.load(std::memory_order_relaxed);
        return header.free_count + (header.slot_limit > high ? header.slot_limit - high : 0);
    }

    Status grow() {
        SetHeader<Atomics>& header = memory_.header();
        const std::uint32_t wanted = std::min(2 * header.slot_limit, memory_.extent().slots);
        if (wanted == header.slot_limit) {
            return failure(
                ErrorCode::resource_exhausted,
                "all {} slots for tensor names are taken, by pending tensors or until all ranks have read that they "
                "are free; wait for some operations, or raise RUEDA_SLOTS_MAX",
                header.slot_limit);
        }
        const std::uint64_t per_slot = sizeof(ArrivalWord<Atomics>) + sizeof(SlotRecord) + sizeof(SlotLabel<Atomics>) +
                                       2 * memory_.extent().members * sizeof(Place<Atomics>);
        RUEDA_RETURN_IF_FAILED(environment_.may_grow((wanted - header.slot_limit) * per_slot));
        header.slot_limit = wanted;
        return {};
    }

    /// Takes numbers back whose retirement every member has read: nobody holds them any more.
    void reuse_passed_slots() {
        SetHeader<Atomics>& header = memory_.header();
        std::uint64_t passed = ~std::uint64_t{0};
        for (std::uint32_t member = 0; member < memory_.extent().members; ++member) {
            passed = std::min(passed, memory_.cursor(member).position.load(std::memory_order_acquire));
        }
        while (header.retired_count > 0) {
            const std::uint32_t slot = memory_.retired_slot(header.retired_first);
            if (memory_.record(slot).retired_at >= passed) {
                return;
            }
            set_state(slot, SlotState::unused);
            memory_.arrivals(slot).called.store(0, std::memory_order_relaxed);
            memory_.arrivals(slot).count.exchange(0, std::memory_order_acq_rel);
            memory_.free_slot(header.free_count++) = slot;
            header.retired_first = (header.retired_first + 1) % memory_.extent().slots;
            --header.retired_count;
        }
    }

    /// Retires bound slots with nothing pending; with `only_idle`, those not called during as many log entries as
    /// there are slots.
    void reclaim(bool only_idle) {
        SetHeader<Atomics>& header = memory_.header();
        const std::uint32_t first = memory_.extent().unnamed_slots;
        const std::uint32_t high = header.high_slot.load(std::memory_order_relaxed);
        const std::uint64_t tail = log_.end(memory_.cursor(rank_).position.load(std::memory_order_relaxed));
        std::uint32_t retired = 0;
        for (std::uint32_t looked = first; looked < high && retired < kReclaimAtOnce; ++looked) {
            header.clock_hand = header.clock_hand + 1 < high ? std::max(header.clock_hand + 1, first) : first;
            const std::uint32_t slot = header.clock_hand;
            if (memory_.record(slot).state != static_cast<std::uint32_t>(SlotState::bound)) {
                continue;
            }
            const std::uint64_t called = memory_.arrivals(slot).last_called.load(std::memory_order_relaxed);
            if (only_idle && called + header.slot_limit > tail) {
                continue;
            }
            if (close_to_arrivals(slot)) {
                retire(slot, append({EntryKind::retire, slot}));
                ++retired;
            }
        }
    }

    /// From "all called" to "all called, retired", unless somebody is pending in it.
    bool close_to_arrivals(std::uint32_t slot) {
        auto& count = memory_.arrivals(slot).count;
        std::uint64_t word = count.load(std::memory_order_acquire);
        // A complete generation is in the log only when its last arriver has appended it: `called`, not `count`, says
        // that nobody is pending.
        if (ArrivalCount::arrivals(word) != memory_.arrivals(slot).called.load(std::memory_order_acquire) ||
            ArrivalCount::any_changed(word) || ArrivalCount::is_retired(word)) {
            return false;
        }
        // Partner: arrive(), which comes first and makes this fail, or sees the bit.
        return count.compare_exchange_strong(word, word | ArrivalCount::kRetired, std::memory_order_acq_rel,
                                             std::memory_order_relaxed);
    }

    /// `slot` has no name any more; the number is free once all cursors have passed `position`.
    void retire(std::uint32_t slot, std::uint64_t position) {
        SetHeader<Atomics>& header = memory_.header();
        SlotRecord& page = memory_.record(slot);
        erase(slot);
        set_state(slot, SlotState::retired);
        page.retired_at = position;
        memory_.retired_slot((header.retired_first + header.retired_count++) % memory_.extent().slots) = slot;
    }

    // ---- names: open addressing, linear probing -------------------------------------------------------------------

    [[nodiscard]] std::uint32_t bucket_mask() const { return memory_.extent().name_buckets() - 1; }

    [[nodiscard]] std::uint32_t find(std::string_view name, std::uint64_t hash) const {
        for (std::uint32_t i = static_cast<std::uint32_t>(hash) & bucket_mask();; i = (i + 1) & bucket_mask()) {
            const std::uint32_t bucket = memory_.name_bucket(i);
            if (bucket == 0) {
                return kNoSlot;
            }
            if (bucket == kTombstone) {
                continue;
            }
            const SlotRecord& page = memory_.record(bucket - 1);
            if (page.name_hash == hash && std::string_view(page.name, page.name_bytes) == name) {
                return bucket - 1;
            }
        }
    }
    void insert(std::uint32_t slot) {
        if (memory_.header().tombstones > memory_.extent().name_buckets() / 4) {
            rebuild_names();  // the slot is in first_sight already, so this inserts it as well
        } else {
            place_in_bucket(slot);
        }
    }
    void place_in_bucket(std::uint32_t slot) {
        std::uint32_t i = static_cast<std::uint32_t>(memory_.record(slot).name_hash) & bucket_mask();
        while (memory_.name_bucket(i) != 0) {
            i = (i + 1) & bucket_mask();
        }
        memory_.name_bucket(i) = slot + 1;
    }
    void erase(std::uint32_t slot) {
        std::uint32_t i = static_cast<std::uint32_t>(memory_.record(slot).name_hash) & bucket_mask();
        while (memory_.name_bucket(i) != slot + 1) {
            i = (i + 1) & bucket_mask();
        }
        memory_.name_bucket(i) = kTombstone;
        ++memory_.header().tombstones;
    }
    void rebuild_names() {
        for (std::uint32_t i = 0; i <= bucket_mask(); ++i) {
            memory_.name_bucket(i) = 0;
        }
        memory_.header().tombstones = 0;
        const std::uint32_t high = memory_.header().high_slot.load(std::memory_order_relaxed);
        for (std::uint32_t slot = memory_.extent().unnamed_slots; slot < high; ++slot) {
            const auto state = static_cast<SlotState>(memory_.record(slot).state);
            if (state == SlotState::bound || state == SlotState::first_sight) {
                place_in_bucket(slot);
            }
        }
    }

    Memory memory_;
    Log<Atomics> log_;
    std::uint32_t rank_;
    Environment environment_;
    std::uint64_t appended_ = 0;
};

}  // namespace rueda::core
