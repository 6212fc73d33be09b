// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The Rueda authors
#pragma once

#include <atomic>
#include <cstdint>
#include <memory>
#include <mutex>
#include <string>

#include "core/pending/tensor_table.hpp"
#include "core/process_set/process_set.hpp"
#include "core/runtime/runtime.hpp"
#include "rueda/rueda.h"

/// The object behind a TensorSlot. It contains a name, and looks up the name's table entry once per job.
struct rueda_slot {
    std::string name;
    std::int32_t process_set = 0;
    std::mutex mutex;
    // The Runtime in which the slot was used last. It is stored with release after `set` and `entry`, and loaded with
    // acquire by every user of the slot.
    std::atomic<rueda::core::Runtime*> runtime{nullptr};
    std::shared_ptr<rueda::core::ProcessSet> set;
    rueda::core::TensorEntry* entry = nullptr;
};

namespace rueda::core::c_interface {

/// Returns the set's entry for the slot's name. Looks the name up at the slot's first use in this job.
[[nodiscard]] TensorEntry& entry_of(rueda_slot& slot, Runtime& runtime, const std::shared_ptr<ProcessSet>& set);

}  // namespace rueda::core::c_interface
