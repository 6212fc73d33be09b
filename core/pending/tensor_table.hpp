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
#include "base/shared_memory/atomics.hpp"
#include "base/shared_memory/prefetch.hpp"
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
    /// An event at the end of the work that the caller had put into the stream before the call. The operation's own
    /// work begins after this event.
    collectives::DeviceEventPtr ready;
    /// Whether this rank also belongs to other process sets that use devices, or that may use them later.
    bool is_in_several_sets = false;
    /// The input and the output lie in this memory of rueda_allocate_on_device(); null if they lie in other memory. The
    /// operation keeps the memory until the device has done the work.
    collectives::DeviceMemoryPtr input_memory{};
    collectives::DeviceMemoryPtr output_memory{};
    /// Says whether the addresses are in memory that NCCL allocated: 0 if none is, kPartlyInNcclMemory if some are, any
    /// other number if all are. Some operations need the same offsets in this memory on all members. For these
    /// operations, the number is computed from the offsets, so it shows different offsets.
    std::uint64_t place = 0;
    /// This rank's heap of resident memory. The device communicator of the set uses it for tensors that pass through
    /// shared memory.
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
    /// The compression that the caller's options ask for. The compression that Rueda really uses is in the metadata. It
    /// may come from the setting RUEDA_COMPRESSION instead.
    std::int32_t asked_compression = 0;
    /// Whether the operation is impossible (is_possible()). Such an operation has no elements, and is announced only so
    /// that all ranks get the error.
    bool is_refused = false;
    std::int32_t source_line = 0;
    /// the source line of the call; null unless call sites are recorded (RUEDA_CALL_SITES)
    const char* source_file = nullptr;
    std::shared_ptr<const DeviceUse> device;  ///< the device and the stream; null if the tensors are in the CPU's
                                              ///< memory

    /// The size of `count` elements in bytes. This is the size of the whole tensor, or of one row.
    [[nodiscard]] std::uint64_t bytes() const { return count * size_of(static_cast<DType>(metadata.dtype)); }
};

inline constexpr std::uint32_t kNoTicket = 0xFFFFFFFF;

/// A name that this rank knows. At most one operation is pending under this name; if there is one, this struct also
/// describes it.
struct TensorEntry {
    std::string name;  ///< the name of the tensor; empty for an operation without a name
    std::uint64_t name_hash = 0;

    // The following fields are used under the enqueue lock, unless the comment of a field says otherwise.

    /// the slot (number) of the name; kNoSlot if the next announcement must contain the name and all metadata
    std::uint32_t slot = kNoSlot;
    Metadata agreed;         ///< the metadata to which the slot is bound; valid only with a slot
    std::uint32_t pins = 0;  ///< number of TensorSlots that hold this entry
    /// The log identifies this rank's announcements of this name by this number. It is valid while this rank knows the
    /// name.
    std::uint32_t ticket = 0;
    /// The ticket of the name that the program announced after this name the last time. Only a guess: that name may be
    /// forgotten by now, and its ticket may belong to another name.
    std::uint32_t followed_by = kNoTicket;
    /// True if `request` was compared with `agreed` and is equal to it, and neither of the two has changed since then.
    bool known_to_agree = false;
    /// True if this rank announced the pending operation only because it has joined. Another rank started the
    /// operation, and this rank contributes nothing.
    bool stands_in = false;
    bool is_counted = true;  ///< only if `stands_in` is true: whether averages count this rank
    /// Only if `stands_in` is true: whether other hosts announced the operation. Perhaps no other rank of this host has
    /// announced it.
    bool asked_for = false;
    /// True while the operation is announced by its name, and the log does not contain the answer to this announcement
    /// yet.
    bool in_full = false;
    TensorEntry* next = nullptr;  ///< the next entry in an EntryQueue, or in the chain that begins with `held`
    bool of_group = false;        ///< the operation is a member of a group
    /// True if the operation is a member of a group and must wait. It waits until the log has called the operation that
    /// announces the number of members.
    bool is_held = false;
    /// The first of the group's members that must wait (is_held). Only the operation that announces the number of
    /// members has this pointer.
    TensorEntry* held = nullptr;

    /// The number of this operation among all operations in this slot. It is written under the enqueue lock. The engine
    /// reads it only after a log entry, or the pointer to the directly announced operation (`direct_`), refers to this
    /// TensorEntry.
    std::uint64_t generation = 0;
    /// How many operations in this slot were added to the slot's counter. All other operations were announced directly.
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
    /// Where the batch that last called this operation begins in the log.
    std::uint64_t called_at = ~std::uint64_t{0};
    /// The number of the operation in the flight recorder (the ring of this rank's last operations).
    std::uint64_t recorded = base::RecorderWriter::kNone;
    /// The number of the tensor's name in the flight recorder.
    std::uint64_t recorded_name = 0;

    // The following fields are for the checks of docs/design/0009-verify.md. Only the holder of the progress lock uses
    // them, with one exception: submit() also writes `finding`, together with `request`.
    std::uint64_t finding = 0;  ///< what this rank found when it checked the input (a Verdict)
    /// If this pointer is not null, this operation compares what the ranks found about another operation. The pointer
    /// points to the entry of that other operation.
    TensorEntry* checks = nullptr;
    /// the completion of the comparison (see `checks`); when it is done, the operation that was checked ends
    std::unique_ptr<Completion> checked;

    /// Prefetches the cache lines of this object. A trainer with many tensors uses the entries of all of them in turn,
    /// so an entry has often left the core's nearest caches when it is used again.
    void prefetch() const {
        const auto* const begin = reinterpret_cast<const char*>(this);
        for (std::size_t offset = 0; offset < sizeof(*this); offset += base::kCacheLine) {
            base::prefetch_to_write(begin + offset);
        }
    }
};

/// A queue of entries, in order. The links are in the entries, and each entry is in at most one queue. So the queue
/// needs no memory, and push_back() cannot fail. This is important, because an announcement that has begun must not
/// fail.
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

/// The names of a process set, and their slots. Threads: all functions run under the enqueue lock of the set (the mutex
/// of class Announcer). There is one exception: when a log entry has called the operation of a slot, the engine calls
/// at_slot() without the lock. Meanwhile the slot keeps its name.
class TensorTable {
public:
    TensorTable(std::uint32_t slots, std::uint32_t unnamed_slots);

    /// Finds the entry of a name, or creates it. Only this function allocates memory. If it throws std::bad_alloc,
    /// nothing has changed.
    TensorEntry& entry(std::string_view name);
    /// Returns the entry that has this ticket, or null. A ticket is the number that identifies an announcement by name
    /// in the log.
    [[nodiscard]] TensorEntry* with_ticket(std::uint32_t ticket) const {
        return ticket < by_ticket_.size() ? by_ticket_[ticket] : nullptr;
    }
    /// Records that the program announces `entry` now. Returns the entry that the program will probably announce next,
    /// or null. A trainer announces its tensors in nearly the same order in every step. So the next entry is probably
    /// the one that followed `entry` the last time.
    TensorEntry* expect_after(TensorEntry& entry) {
        if (TensorEntry* const last = with_ticket(last_); last != nullptr && last->followed_by != entry.ticket) {
            last->followed_by = entry.ticket;
        }
        last_ = entry.ticket;
        expected_ = entry.followed_by;
        return with_ticket(expected_);
    }
    /// Whether the result of the last call of expect_after() was `entry`.
    [[nodiscard]] bool expects(const TensorEntry& entry) const { return expected_ == entry.ticket; }
    /// Returns the entry of the name; null if there is none.
    [[nodiscard]] TensorEntry* find(std::string_view name);
    [[nodiscard]] TensorEntry& unnamed(std::uint32_t slot) { return *unnamed_[slot]; }

    [[nodiscard]] TensorEntry* at_slot(std::uint32_t slot) const {
        return slot < by_slot_.size() ? by_slot_[slot].load(std::memory_order_acquire) : nullptr;
    }
    void bind(TensorEntry& entry, std::uint32_t slot, const Metadata& agreed);
    /// Removes the slot from the entry. If the name is not needed any more, also forgets the name.
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
    // This vector always has capacity for the tickets of all names. So no memory is allocated when a name is forgotten.
    std::vector<std::uint32_t> free_tickets_;
    // Tickets of expect_after(). An entry may be forgotten meanwhile, so these are no pointers.
    std::uint32_t last_ = kNoTicket;
    std::uint32_t expected_ = kNoTicket;
};

[[nodiscard]] std::uint64_t hash_of_name(std::string_view name);

}  // namespace rueda::core
