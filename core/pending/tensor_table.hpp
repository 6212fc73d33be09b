// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The Rueda authors
#pragma once

#include <atomic>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

#include "base/recorder/recorder_writer.hpp"
#include "core/negotiation/layout.hpp"
#include "core/pending/completion.hpp"

namespace rueda::core {

/// One operation on one tensor, as the caller requested it.
struct Request {
    Metadata metadata;
    const std::byte* input = nullptr;
    std::byte* output = nullptr;
    std::uint64_t count = 0;           ///< elements; for an operation of variable size: elements of one row
    std::int64_t first_dimension = 0;  ///< for an operation of variable size: rows of this rank's input
    std::vector<std::int64_t> splits;  ///< alltoall, scatter: how many rows go to each member
    /// For operations of variable size except reducescatter: rows of the caller's output; empty if Rueda allocates it.
    std::optional<std::int64_t> output_rows;
    std::uint32_t member = 0;  ///< in a group: the index of this operation's output
    /// The compression in the caller's options. The metadata has the one that applies, which a rule may have chosen.
    std::int32_t asked_compression = 0;
    bool is_refused = false;  ///< no rank can do it (is_possible()); it has no elements, and is announced so that all
                              ///< ranks get the error
    std::int32_t source_line = 0;
    const char* source_file = nullptr;  ///< where the call stands; set if the job asked for it (RUEDA_CALL_SITES)

    /// The bytes of `count` elements: of the tensor, or of one row.
    [[nodiscard]] std::uint64_t bytes() const { return count * size_of(static_cast<DType>(metadata.dtype)); }
};

/// A name as this rank knows it, with the operation that is pending on it; there is at most one.
struct TensorEntry {
    std::string name;  ///< empty: the entry of an unnamed slot
    std::uint64_t name_hash = 0;

    // Under the enqueue lock.
    std::uint32_t slot = kNoSlot;  ///< the slot that it is bound to; kNoSlot: the next announcement is a full one
    Metadata agreed;               ///< valid while bound
    std::uint32_t pins = 0;        ///< TensorSlots that hold this entry
    std::uint32_t ticket = 0;      ///< ticket of its full announcements; valid as long as the name is known here
    bool known_to_agree = false;   ///< `request` was compared with `agreed`, and both are unchanged since
    /// This rank has joined; the pending operation is another rank's, and this rank contributes nothing.
    bool stands_in = false;
    bool is_counted = true;  ///< if stands_in: averages still divide by this rank
    /// With stands_in: other hosts asked for it; perhaps no rank of this host has announced it.
    bool asked_for = false;
    bool in_full = false;         ///< a full announcement is posted, and the log has not answered it yet
    TensorEntry* next = nullptr;  ///< in an EntryQueue, or in the chain of `held`
    bool of_group = false;        ///< the operation was asked for as a member of a group
    bool is_held = false;  ///< pending as a member of a group that is announced only when the group's number is called
    TensorEntry* held = nullptr;  ///< for the operation of a group's number: the group's first member

    /// Written under the enqueue lock. The engine reads it after a log entry, or `direct_`, told it to.
    std::uint64_t generation = 0;
    /// The number of generations so far that were counted among the arrivals. The others were announced directly.
    std::uint64_t counted = 0;

    /// An operation is pending: from submit (enqueue lock) to completion (engine). The engine's release is the partner
    /// of the acquire in the next submit.
    std::atomic<bool> pending{false};
    Request request;
    void ask_for(const Request& wanted) {
        request = wanted;
        known_to_agree = false;
        of_group = false;
    }
    Completion* completion = nullptr;
    std::int64_t submitted_ns = 0;
    /// For the flight recorder: the numbers of the operation and of the name in it.
    std::uint64_t recorded = base::RecorderWriter::kNone;
    std::uint64_t recorded_name = 0;
    std::uint64_t called_at = ~std::uint64_t{0};  ///< the first log position of the batch that called it last

    // For docs/design/0009-verify.md. The thread that holds the progress lock owns these members, except the first,
    // which is written like `request`.
    std::uint64_t finding = 0;      ///< what this rank found in its input, since the announcement; a Verdict
    TensorEntry* checks = nullptr;  ///< if set, this operation compares what the ranks found for that entry's operation
    std::unique_ptr<Completion> checked;  ///< the completion of this comparing operation; it then ends the other one
};

/// Entries in the order in which they came; each is in at most one queue. The queue is linked through the entries, so
/// it never needs memory: an announcement must not fail half way.
class EntryQueue {
public:
    [[nodiscard]] bool empty() const { return first_ == nullptr; }
    [[nodiscard]] TensorEntry& front() const { return *first_; }
    void push_back(TensorEntry& entry) {
        entry.next = nullptr;
        (empty() ? first_ : last_->next) = &entry;
        last_ = &entry;
        ++size_;
    }
    void pop_front() {
        first_ = first_->next;
        --size_;
    }
    void clear() {
        first_ = nullptr;
        size_ = 0;
    }
    [[nodiscard]] std::size_t size() const { return size_; }
    [[nodiscard]] bool contains(const TensorEntry& entry) const {
        const TensorEntry* one = first_;
        while (one != nullptr && one != &entry) {
            one = one->next;
        }
        return one != nullptr;
    }

private:
    TensorEntry* first_ = nullptr;
    TensorEntry* last_ = nullptr;
    std::size_t size_ = 0;
};

/// The names of a process set, and the slots to which they are bound. Threads: all functions under the set's enqueue
/// lock. Exception: the engine calls at_slot() for slots that a log entry has called, whose bindings do not change
/// meanwhile.
class TensorTable {
public:
    TensorTable(std::uint32_t slots, std::uint32_t unnamed_slots);

    /// Finds or makes the entry of a name. If it throws std::bad_alloc, nothing has changed. No other function here
    /// needs memory.
    TensorEntry& entry(std::string_view name);
    /// The entry whose full announcement has the ticket; null if no entry has it.
    [[nodiscard]] TensorEntry* with_ticket(std::uint32_t ticket) const {
        return ticket < by_ticket_.size() ? by_ticket_[ticket] : nullptr;
    }
    /// Returns null if there is no entry.
    [[nodiscard]] TensorEntry* find(std::string_view name);
    [[nodiscard]] TensorEntry& unnamed(std::uint32_t slot) { return *unnamed_[slot]; }

    [[nodiscard]] TensorEntry* at_slot(std::uint32_t slot) const {
        return slot < by_slot_.size() ? by_slot_[slot].load(std::memory_order_acquire) : nullptr;
    }
    void bind(TensorEntry& entry, std::uint32_t slot, const Metadata& agreed);
    /// Forgets the slot, and also the name if nothing refers to it any more.
    void unbind(TensorEntry& entry);
    /// Forgets a name that has neither a slot, nor an operation, nor a pin.
    void forget_if_unused(TensorEntry& entry);
    /// Call it when no operation is pending and none will be. It frees everything except pinned entries. No slot is
    /// bound any more, and the unnamed entries have no slots.
    void release();

    template <class F>
    void for_each(F&& f) {
        for (auto& [name, entry] : by_name_) {
            f(*entry);
        }
        for (auto& entry : unnamed_) {
            f(*entry);
        }
    }

private:
    // The keys are views of the names inside the entries, which do not move.
    std::unordered_map<std::string_view, std::unique_ptr<TensorEntry>> by_name_;
    std::vector<std::unique_ptr<TensorEntry>> unnamed_;
    std::vector<std::atomic<TensorEntry*>> by_slot_;
    std::vector<TensorEntry*> by_ticket_;
    std::vector<std::uint32_t> free_tickets_;  // with capacity for all tickets
};

[[nodiscard]] std::uint64_t hash_of_name(std::string_view name);

}  // namespace rueda::core
