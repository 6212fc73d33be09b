// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The Rueda authors
#include "core/pending/tensor_table.hpp"

#include <xxhash.h>

namespace rueda::core {

std::uint64_t hash_of_name(std::string_view name) { return XXH3_64bits(name.data(), name.size()); }

TensorTable::TensorTable(std::uint32_t slots, std::uint32_t unnamed_slots) : by_slot_(slots) {
    for (std::uint32_t slot = 0; slot < unnamed_slots; ++slot) {
        auto entry = std::make_unique<TensorEntry>();
        entry->slot = slot;
        by_slot_[slot].store(entry.get(), std::memory_order_release);
        unnamed_.push_back(std::move(entry));
    }
}

TensorEntry& TensorTable::entry(std::string_view name) {
    // To compare the name with the expected one is faster than to search the table.
    if (TensorEntry* const expected = with_ticket(expected_); expected != nullptr && expected->name == name) {
        return *expected;
    }
    if (TensorEntry* known = find(name)) {
        return *known;
    }
    auto entry = std::make_unique<TensorEntry>();
    entry->name = std::string(name);
    entry->name_hash = hash_of_name(name);
    if (free_tickets_.empty()) {
        if (free_tickets_.capacity() <= by_ticket_.size()) {
            free_tickets_.reserve(2 * by_ticket_.size() + 1);
        }
        by_ticket_.push_back(nullptr);
        free_tickets_.push_back(static_cast<std::uint32_t>(by_ticket_.size() - 1));
    }
    const std::string_view key = entry->name;
    TensorEntry& made = *by_name_.emplace(key, std::move(entry)).first->second;
    made.ticket = free_tickets_.back();
    free_tickets_.pop_back();
    by_ticket_[made.ticket] = &made;
    return made;
}

TensorEntry* TensorTable::find(std::string_view name) {
    const auto found = by_name_.find(name);
    return found == by_name_.end() ? nullptr : found->second.get();
}

void TensorTable::bind(TensorEntry& entry, std::uint32_t slot, const Metadata& agreed) {
    entry.slot = slot;
    entry.agreed = agreed;
    entry.known_to_agree = false;
    entry.generation = 0;
    entry.counted = 0;
    by_slot_[slot].store(&entry, std::memory_order_release);
}

void TensorTable::unbind(TensorEntry& entry) {
    if (entry.slot != kNoSlot) {
        by_slot_[entry.slot].store(nullptr, std::memory_order_release);
        entry.slot = kNoSlot;
    }
    forget_if_unused(entry);
}

void TensorTable::forget_if_unused(TensorEntry& entry) {
    if (entry.slot == kNoSlot && entry.pins == 0 && !entry.is_held && !entry.pending.load(std::memory_order_acquire) &&
        !entry.name.empty()) {
        by_ticket_[entry.ticket] = nullptr;
        free_tickets_.push_back(entry.ticket);
        by_name_.erase(by_name_.find(entry.name));
    }
}

void TensorTable::release() {
    last_ = kNoTicket;
    expected_ = kNoTicket;
    std::vector<std::atomic<TensorEntry*>>().swap(by_slot_);
    std::vector<std::unique_ptr<TensorEntry>>().swap(unnamed_);
    std::erase_if(by_name_, [](const auto& known) { return known.second->pins == 0; });
    if (by_name_.empty()) {
        std::vector<TensorEntry*>().swap(by_ticket_);
        std::vector<std::uint32_t>().swap(free_tickets_);
        return;
    }
    // The remaining entries are those that TensorSlots hold. They lose their slots, but keep their tickets (the numbers
    // that identify their announcements in the log).
    for (auto& [name, entry] : by_name_) {
        entry->slot = kNoSlot;
    }
}

}  // namespace rueda::core
