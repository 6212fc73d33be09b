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

#include "core/negotiation/layout.hpp"
#include "core/pending/completion.hpp"

namespace rueda::core {

/// One operation on one tensor, as the caller asked for it.
struct Request {
    Metadata metadata;
    const std::byte* input = nullptr;
    std::byte* output = nullptr;
    std::uint64_t count = 0;           ///< elements; of an operation by rows: of one row
    std::int64_t first_dimension = 0;  ///< of these: rows of this rank's input
    std::vector<std::int64_t> splits;  ///< alltoall, scatter: how many of them are for each member
    /// Operations by rows but a reducescatter: rows of the output that the caller gave; none: Rueda makes it.
    std::optional<std::int64_t> output_rows;
    std::uint32_t member = 0;  ///< of a group: which of its outputs is this one's
    /// Compression in the caller's options; what holds, which a rule may have chosen, is in the metadata.
    std::int32_t asked_compression = 0;
    bool is_refused = false;  ///< no rank can do it (is_possible()): it has no elements, and is announced to be told so
    std::int32_t source_line = 0;
    const char* source_file = nullptr;  ///< where the call stands; set where the job wants to know (RUEDA_CALL_SITES)

    /// Of `count` elements: the tensor, or one row.
    [[nodiscard]] std::uint64_t bytes() const { return count * size_of(static_cast<DType>(metadata.dtype)); }
};

/// A name as this rank knows it, with the operation that is pending on it: at most one.
struct TensorEntry {
    std::string name;  ///< empty: one of the unnamed slots
    std::uint64_t name_hash = 0;

    // Under the enqueue lock.
    std::uint32_t slot = kNoSlot;  ///< bound to; kNoSlot: the next announcement is a full one
    Metadata agreed;               ///< while bound
    std::uint32_t pins = 0;        ///< TensorSlots that hold this entry
    std::uint32_t ticket = 0;      ///< of its full announcements; for as long as the name is known here
    bool known_to_agree = false;   ///< the metadata of `request` with `agreed`: it was compared, and is the same since
    bool stands_in = false;        ///< the pending operation is the others': this rank has joined, and gives nothing
    bool is_counted = true;        ///< with stands_in: averages divide by this rank all the same
    bool asked_for = false;        ///< with stands_in: by other hosts; nobody here need have announced it
    bool in_full = false;          ///< a full announcement is posted, and not answered by the log
    TensorEntry* next = nullptr;   ///< in an EntryQueue, or in the chain of `held`
    bool of_group = false;         ///< the operation was asked for as a member of a group
    bool is_held = false;         ///< pending, as a member of a group that is not announced before its number is called
    TensorEntry* held = nullptr;  ///< of that number: its first member

    /// Written under the enqueue lock; read by the engine after a log entry, or `direct_`, told it to.
    std::uint64_t generation = 0;
    /// Of the generations so far, those that are counted among the arrivals: the others went directly.
    std::uint64_t counted = 0;

    /// An operation is pending: from submit (enqueue lock) to completion (engine). Partner of the engine's release: the
    /// next submit's acquire.
    std::atomic<bool> pending{false};
    Request request;
    void ask_for(const Request& wanted) {
        request = wanted;
        known_to_agree = false;
        of_group = false;
    }
    Completion* completion = nullptr;
    std::int64_t submitted_ns = 0;
    std::uint64_t called_at = ~std::uint64_t{0};  ///< the batch that it was last called in, by its first log position

    // docs/design/0009-verify.md. Of whoever holds the progress lock, but the first, which is written as `request` is.
    std::uint64_t finding = 0;            ///< of this rank's input, from its announcement; a Verdict
    TensorEntry* checks = nullptr;        ///< this operation compares what the ranks found of that one
    std::unique_ptr<Completion> checked;  ///< and ends by this, which ends that one
};

/// Entries in the order in which they came, each in at most one queue. Linked through the entries, so that it never
/// needs memory: what is announced must not fail half way.
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

/// The names of a process set, and which slot is bound to which.
/// Threads: all functions under the set's enqueue lock, but at_slot(), which the engine calls for slots that a log
/// entry has called (bindings of those do not change meanwhile).
class TensorTable {
public:
    TensorTable(std::uint32_t slots, std::uint32_t unnamed_slots);

    /// Finds or makes the entry of a name. Throws std::bad_alloc with nothing changed; no other function here needs
    /// memory.
    TensorEntry& entry(std::string_view name);
    /// Whose full announcement has the ticket; null for a number that nobody has.
    [[nodiscard]] TensorEntry* with_ticket(std::uint32_t ticket) const {
        return ticket < by_ticket_.size() ? by_ticket_[ticket] : nullptr;
    }
    /// Only if there is one.
    [[nodiscard]] TensorEntry* find(std::string_view name);
    [[nodiscard]] TensorEntry& unnamed(std::uint32_t slot) { return *unnamed_[slot]; }

    [[nodiscard]] TensorEntry* at_slot(std::uint32_t slot) const {
        return slot < by_slot_.size() ? by_slot_[slot].load(std::memory_order_acquire) : nullptr;
    }
    void bind(TensorEntry& entry, std::uint32_t slot, const Metadata& agreed);
    /// Forgets the slot; and the name, if nothing refers to it any more.
    void unbind(TensorEntry& entry);
    /// Forgets a name that has neither a slot, nor an operation, nor a pin.
    void forget_if_unused(TensorEntry& entry);
    /// When no operation is pending and none will be: gives back the memory of all but what is pinned. No slot is bound
    /// any more, and the unnamed have none.
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
    // Keys view the names inside the entries, which do not move.
    std::unordered_map<std::string_view, std::unique_ptr<TensorEntry>> by_name_;
    std::vector<std::unique_ptr<TensorEntry>> unnamed_;
    std::vector<std::atomic<TensorEntry*>> by_slot_;
    std::vector<TensorEntry*> by_ticket_;
    std::vector<std::uint32_t> free_tickets_;  // with room for all
};

[[nodiscard]] std::uint64_t hash_of_name(std::string_view name);

}  // namespace rueda::core
