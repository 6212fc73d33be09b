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
#include "collectives/cuda/plugin_interface.hpp"
#include "core/negotiation/layout.hpp"
#include "core/pending/completion.hpp"

namespace rueda::collectives {
class ResidentHeap;
}

namespace rueda::core {

/// The device and the stream of a caller whose tensors are in device memory.
struct DeviceUse {
    collectives::DeviceRuntime* runtime = nullptr;
    collectives::DeviceStream stream;
    /// The end of the work that the caller had put into the stream before the call. The operation's own work begins
    /// after this end.
    collectives::DeviceEventPtr ready;
    /// Whether this rank also belongs to other process sets that use devices, or that may use them later.
    bool is_in_several_sets = false;
    /// The memory of rueda_allocate_on_device() in which the input and the output lie; null if they lie in other
    /// memory. The operation keeps this memory until the device has done the work.
    collectives::DeviceMemoryPtr input_memory{};
    collectives::DeviceMemoryPtr output_memory{};
    /// Whether the addresses are in memory that NCCL allocated. 0: none of them. kPartlyInNcclMemory: some of them. Any
    /// other number: all of them. If NCCL requires that the offsets in this memory are the same on all members, the
    /// number is computed from the offsets. Members with different offsets then have different numbers.
    std::uint64_t place = 0;
    /// this rank's heap; the set's device communicator uses it for tensors that pass through shared memory
    collectives::ResidentHeap* heap = nullptr;
    static constexpr std::uint64_t kPartlyInNcclMemory = 1;
};

/// An operation, as the caller requested it.
struct Request {
    Metadata metadata;
    const std::byte* input = nullptr;
    std::byte* output = nullptr;
    /// the number of elements; for an operation of variable size, the number of elements of one row
    std::uint64_t count = 0;
    std::int64_t first_dimension = 0;  ///< the number of rows of the input; only for an operation of variable size
    std::vector<std::int64_t> splits;  ///< the number of rows for each member; only for an alltoall or a scatter
    /// The number of rows of the caller's output; empty if Rueda allocates the output. Only for operations of variable
    /// size except reducescatter.
    std::optional<std::int64_t> output_rows;
    std::uint32_t member = 0;  ///< the index of the output in the Completion; only for a member of a group
    /// The compression that the caller's options ask for. The compression that is used is in the metadata, and may come
    /// from the setting instead.
    std::int32_t asked_compression = 0;
    /// whether the operation is impossible (is_possible()); it then has no elements, and is announced only so that all
    /// ranks get the error
    bool is_refused = false;
    std::int32_t source_line = 0;
    /// the source line of the call; null unless call sites are recorded (RUEDA_CALL_SITES)
    const char* source_file = nullptr;
    std::shared_ptr<const DeviceUse> device;  ///< the device and the stream; null if the tensors are in the CPU's
                                              ///< memory

    /// The size in bytes of `count` elements, which are the whole tensor or one row of it.
    [[nodiscard]] std::uint64_t bytes() const { return count * size_of(static_cast<DType>(metadata.dtype)); }
};

/// A name that this rank knows, with the operation that is pending under this name, if any. At most one is pending.
struct TensorEntry {
    std::string name;  ///< the name of the tensor; empty for an operation without a name
    std::uint64_t name_hash = 0;

    // The following fields are used under the enqueue lock, except where a comment names another rule.

    /// the slot (number) of the name; kNoSlot if the next announcement must contain the name and all metadata
    std::uint32_t slot = kNoSlot;
    Metadata agreed;         ///< the metadata to which the slot is bound; valid only with a slot
    std::uint32_t pins = 0;  ///< number of TensorSlots that hold this entry
    /// identifies the announcements by this name in the log; valid while this rank knows the name
    std::uint32_t ticket = 0;
    /// whether `request` was found equal to `agreed`, and neither of the two has changed since then
    bool known_to_agree = false;
    /// Whether this rank announced the pending operation only because it has joined: another rank started the
    /// operation, and this rank contributes nothing.
    bool stands_in = false;
    bool is_counted = true;  ///< whether averages count this rank; only if `stands_in` is true
    /// Whether other hosts announced the operation; only if `stands_in` is true. It is possible that no other rank of
    /// this host has announced the operation.
    bool asked_for = false;
    /// true while the operation is announced by name and the log does not contain the answer yet
    bool in_full = false;
    TensorEntry* next = nullptr;  ///< the next entry in an EntryQueue, or in the chain that begins with `held`
    bool of_group = false;        ///< the operation is a member of a group
    /// whether the operation is a member of a group and waits until the log has called the operation that announces the
    /// number of members
    bool is_held = false;
    /// The first member of the group that must wait (is_held); only in the operation that announces the group's number
    /// of members.
    TensorEntry* held = nullptr;

    /// The number of this operation among the operations in this slot. A thread writes it under the enqueue lock. The
    /// engine reads the number only after a log entry or `direct_` refers to this TensorEntry.
    std::uint64_t generation = 0;
    /// How many of the operations in this slot were counted in the slot's counter. The other operations were announced
    /// directly.
    std::uint64_t counted = 0;

    /// True if an operation is pending. submit() sets this under the enqueue lock; the engine clears it at the end of
    /// the operation. The engine's release store pairs with the acquire load in the next submit().
    std::atomic<bool> pending{false};
    Request request;
    void ask_for(const Request& wanted) {
        request = wanted;
        known_to_agree = false;
        of_group = false;
    }
    Completion* completion = nullptr;
    std::int64_t submitted_ns = 0;
    /// the first log position of the batch that last called this operation
    std::uint64_t called_at = ~std::uint64_t{0};
    /// The number of the operation in the flight recorder (the ring of this rank's last operations).
    std::uint64_t recorded = base::RecorderWriter::kNone;
    /// The number of the name in the flight recorder.
    std::uint64_t recorded_name = 0;

    // For the checks of docs/design/0009-verify.md. Only the holder of the progress lock uses these fields. Exception:
    // submit() also writes `finding`, together with `request`.
    std::uint64_t finding = 0;  ///< what this rank found when it checked the input (a Verdict)
    /// If set, this operation compares the ranks' findings about another operation. The pointer points to the entry of
    /// that other operation.
    TensorEntry* checks = nullptr;
    /// the completion of this comparing operation; when it is done, the checked operation ends
    std::unique_ptr<Completion> checked;
};

/// A queue of entries, in order. Each entry is in at most one queue. The links are in the entries, so the queue needs
/// no memory, and push_back() cannot fail. A failure would be wrong here, because an announcement that has begun must
/// not fail.
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

/// The names of a process set, and their slots. Threads: all functions run under the set's enqueue lock (the mutex of
/// class Announcer). Exception: the engine calls at_slot() without the lock if a log entry has called the operation of
/// the slot; the slot keeps its name during this call.
class TensorTable {
public:
    TensorTable(std::uint32_t slots, std::uint32_t unnamed_slots);

    /// Finds or creates the entry of a name. If this throws std::bad_alloc, nothing has changed. The other functions
    /// allocate no memory.
    TensorEntry& entry(std::string_view name);
    /// Returns the entry whose announcement by name has this ticket (the number that identifies the announcement in the
    /// log). Returns null if there is none.
    [[nodiscard]] TensorEntry* with_ticket(std::uint32_t ticket) const {
        return ticket < by_ticket_.size() ? by_ticket_[ticket] : nullptr;
    }
    /// Returns the entry of the name; null if there is none.
    [[nodiscard]] TensorEntry* find(std::string_view name);
    [[nodiscard]] TensorEntry& unnamed(std::uint32_t slot) { return *unnamed_[slot]; }

    [[nodiscard]] TensorEntry* at_slot(std::uint32_t slot) const {
        return slot < by_slot_.size() ? by_slot_[slot].load(std::memory_order_acquire) : nullptr;
    }
    void bind(TensorEntry& entry, std::uint32_t slot, const Metadata& agreed);
    /// Removes the slot from the entry. Also forgets the name if it is not needed any more.
    void unbind(TensorEntry& entry);
    /// Forgets the name if three conditions hold: it has no slot, it has no pending operation, and no TensorSlot holds
    /// it.
    void forget_if_unused(TensorEntry& entry);
    /// Frees everything except pinned entries (those that a TensorSlot holds). The pinned entries lose their slots.
    /// Call this when no operation is pending and none will follow. Afterwards unnamed() must not be called.
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
    // The keys point to the names in the entries. Entries do not move.
    std::unordered_map<std::string_view, std::unique_ptr<TensorEntry>> by_name_;
    std::vector<std::unique_ptr<TensorEntry>> unnamed_;
    std::vector<std::atomic<TensorEntry*>> by_slot_;
    std::vector<TensorEntry*> by_ticket_;
    // this vector has capacity for the tickets of all names, so that forgetting a name allocates no memory
    std::vector<std::uint32_t> free_tickets_;
};

[[nodiscard]] std::uint64_t hash_of_name(std::string_view name);

}  // namespace rueda::core
