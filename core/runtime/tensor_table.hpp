// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The Rueda authors
#pragma once

#include <atomic>
#include <cstdint>
#include <memory>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

#include "core/negotiation/layout.hpp"
#include "core/runtime/completion.hpp"

namespace rueda::core {

/// One operation on one tensor, as the caller asked for it.
struct Request {
    Metadata metadata;
    const std::byte* input = nullptr;
    std::byte* output = nullptr;
    std::uint64_t count = 0;           ///< elements; of an allgather: of one row
    std::int64_t first_dimension = 0;  ///< allgather: rows of this rank
};

/// A name as this rank knows it, with the operation that is pending on it: at most one.
struct TensorEntry {
    std::string name;  ///< empty: one of the unnamed slots
    std::uint64_t name_hash = 0;

    // Under the enqueue lock.
    std::uint32_t slot = kNoSlot;  ///< bound to; kNoSlot: the next announcement is a full one
    Metadata agreed;               ///< while bound
    std::uint32_t pins = 0;        ///< TensorSlots that hold this entry
    std::uint32_t ticket = 0;      ///< of a full announcement under way

    /// Written under the enqueue lock; read by the engine after a log entry told it to.
    std::uint64_t generation = 0;

    /// An operation is pending: from submit (enqueue lock) to completion (engine). Partner of the engine's release: the
    /// next submit's acquire.
    std::atomic<bool> pending{false};
    Request request;
    Completion* completion = nullptr;
    std::int64_t submitted_ns = 0;
};

/// The names of a process set, and which slot is bound to which.
/// Threads: all functions under the set's enqueue lock, but at_slot(), which the engine calls for slots that a log
/// entry has called (bindings of those do not change meanwhile).
class TensorTable {
public:
    TensorTable(std::uint32_t slots, std::uint32_t unnamed_slots);

    /// Finds or makes the entry of a name.
    TensorEntry& entry(std::string_view name);
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
};

[[nodiscard]] std::uint64_t hash_of_name(std::string_view name);

}  // namespace rueda::core
