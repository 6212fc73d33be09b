// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The Rueda authors
#include "core/c_interface/slot.hpp"

#include <memory>

#include "base/status.hpp"
#include "core/c_interface/guarded.hpp"
#include "core/c_interface/process.hpp"

using rueda::ErrorCode;
using rueda::Status;
using rueda::core::c_interface::check_place;
using rueda::core::c_interface::guarded;
using rueda::core::c_interface::process;

namespace rueda::core::c_interface {

TensorEntry& entry_of(rueda_slot& slot, Runtime& runtime, const std::shared_ptr<ProcessSet>& set) {
    if (slot.runtime.load(std::memory_order_acquire) != &runtime) [[unlikely]] {
        const std::lock_guard lock(slot.mutex);
        if (slot.runtime.load(std::memory_order_relaxed) != &runtime) {
            slot.set = set;
            slot.entry = &set->pin(slot.name);
            slot.runtime.store(&runtime, std::memory_order_release);
        }
    }
    return *slot.entry;
}

}  // namespace rueda::core::c_interface

extern "C" {

int rueda_slot_create(const char* name, rueda_slot** slot) { return rueda_slot_create_in(name, 0, slot); }

int rueda_slot_create_in(const char* name, int32_t process_set, rueda_slot** slot) {
    return guarded([&]() -> Status {
        if (name == nullptr || *name == '\0') {
            return {ErrorCode::invalid_argument, "a TensorSlot needs a name"};
        }
        RUEDA_RETURN_IF_FAILED(rueda::core::check_name(name));
        RUEDA_RETURN_IF_FAILED(check_place(slot, "slot"));
        auto created = std::make_unique<rueda_slot>();
        created->name = name;
        created->process_set = process_set;
        *slot = created.release();
        return {};
    });
}

void rueda_slot_destroy(rueda_slot* slot) {
    if (slot == nullptr) {
        return;
    }
    // In a forked child, unpin() could wait for a lock that a thread of the parent held.
    const bool forked = process().forked.load(std::memory_order_relaxed);
    if (!forked && slot->runtime.load(std::memory_order_acquire) != nullptr) {
        slot->set->unpin(*slot->entry);
    }
    delete slot;
}

}  // extern "C"
