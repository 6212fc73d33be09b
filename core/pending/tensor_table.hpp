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

/// One operation on a tensor, as the caller requested it.
struct Request {
    Metadata metadata;
    const std::byte* input = nullptr;
    std::byte* output = nullptr;
    /// the number of elements; for an operation of variable size: of elements in one row
    std::uint64_t count = 0;
    std::int64_t first_dimension = 0;  ///< for an operation of variable size: the number of rows of this rank's input
    std::vector<std::int64_t> splits;  ///< alltoall, scatter: the number of rows that go to each member
    /// For operations of variable size except reducescatter: the number of rows of the caller's output; empty if Rueda
    /// allocates the output.
    std::optional<std::int64_t> output_rows;
    std::uint32_t member = 0;  ///< in a group: the index of this operation's output in the Completion
    /// The compression in the caller's options. The metadata has the compression that applies, which the setting may
    /// have chosen.
    std::int32_t asked_compression = 0;
    bool is_refused = false;  ///< no rank can do this operation (is_possible()); it has no elements, and is announced
                              ///< so that all ranks get the error
    std::int32_t source_line = 0;
    /// where in the source the call stands; set if the job asked for it (RUEDA_CALL_SITES)
    const char* source_file = nullptr;

    /// The number of bytes of `count` elements: of the tensor, or of one row.
    [[nodiscard]] std::uint64_t bytes() const { return count * size_of(static_cast<DType>(metadata.dtype)); }
};

/// A name that this rank knows, with the operation that is pending on it. At most one operation is pending.
struct TensorEntry {
    std::string name;  ///< empty: the entry of an unnamed slot
    std::uint64_t name_hash = 0;

    // The following members are used under the enqueue lock.
    /// the slot to which the name is bound; kNoSlot if the next announcement must be a full one
    std::uint32_t slot = kNoSlot;
    Metadata agreed;         ///< valid while a slot is bound
    std::uint32_t pins = 0;  ///< number of TensorSlots that hold this entry
    /// the ticket of the name's full announcements; valid as long as this rank knows the name
    std::uint32_t ticket = 0;
    bool known_to_agree = false;  ///< `request` was compared with `agreed`, and neither has changed since then
    /// This rank has joined: another rank started the pending operation, and this rank contributes nothing to it.
    bool stands_in = false;
    bool is_counted = true;  ///< if stands_in: whether averages still count this rank
    /// If stands_in: other hosts announced the operation first; perhaps no rank of this host has announced it.
    bool asked_for = false;
    bool in_full = false;         ///< a full announcement is posted, and the log has not answered it yet
    TensorEntry* next = nullptr;  ///< link in an EntryQueue, or in the chain that begins with `held`
    bool of_group = false;        ///< the operation was requested as a member of a group
    /// the operation is a member of a group and is announced only after the group's number is called
    bool is_held = false;
    TensorEntry* held = nullptr;  ///< for the operation that announces a group's number: the group's first member

    /// Written under the enqueue lock. The engine reads it only after a log entry, or `direct_`, has told it to.
    std::uint64_t generation = 0;
    /// The number of generations so far that were counted among the arrivals. The other generations were announced
    /// directly.
    std::uint64_t counted = 0;

    /// An operation is pending: from submit (enqueue lock) to completion (engine). The engine's release pairs with the
    /// acquire in the next submit.
    std::atomic<bool> pending{false};
    Request request;
    void ask_for(const Request& wanted) {
        request = wanted;
        known_to_agree = false;
        of_group = false;
    }
    Completion* completion = nullptr;
    std::int64_t submitted_ns = 0;
    std::uint64_t called_at = ~std::uint64_t{0};  ///< the first log position of the last batch that called it
    /// For the flight recorder: the number of the operation, and the number of its name there.
    std::uint64_t recorded = base::RecorderWriter::kNone;
    std::uint64_t recorded_name = 0;

    // These members are for docs/design/0009-verify.md. Only the thread that holds the progress lock uses them.
    // Exception: `finding` is written at the same time as `request`.
    std::uint64_t finding = 0;      ///< what this rank has found out about its input since the announcement; a Verdict
    TensorEntry* checks = nullptr;  ///< if set, this operation compares what the ranks found for that entry's operation
    /// the completion of this comparing operation; when it completes, it ends the compared operation
    std::unique_ptr<Completion> checked;
};

/// A queue of entries in the order in which they came. Each entry is in at most one queue. The queue is linked through
/// the entries, so it allocates no memory: an announcement must not fail after it has begun.
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

/// The names of a process set, and the slots to which they are bound. Threads: all functions run under the set's
/// enqueue lock. Exception: the engine calls at_slot() for slots that a log entry has called; their bindings do not
/// change meanwhile.
class TensorTable {
public:
    TensorTable(std::uint32_t slots, std::uint32_t unnamed_slots);

    /// Finds or creates the entry of a name. If it throws std::bad_alloc, nothing has changed. No other function of
    /// this class allocates memory.
    TensorEntry& entry(std::string_view name);
    /// Returns the entry whose full announcement has the ticket; null if there is none.
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
    /// Forgets the slot of the entry. Also forgets the name if nothing refers to it any more.
    void unbind(TensorEntry& entry);
    /// Forgets a name that has no slot, no pending operation and no pin.
    void forget_if_unused(TensorEntry& entry);
    /// Frees everything except pinned entries. Call this when no operation is pending and none will be. After this no
    /// slot is bound, and the unnamed entries have no slots.
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
    // The keys point to the names in the entries, which do not move.
    std::unordered_map<std::string_view, std::unique_ptr<TensorEntry>> by_name_;
    std::vector<std::unique_ptr<TensorEntry>> unnamed_;
    std::vector<std::atomic<TensorEntry*>> by_slot_;
    std::vector<TensorEntry*> by_ticket_;
    std::vector<std::uint32_t> free_tickets_;  // has capacity for all tickets
};

[[nodiscard]] std::uint64_t hash_of_name(std::string_view name);

}  // namespace rueda::core
