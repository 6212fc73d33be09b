// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The Rueda authors
#pragma once

#include <atomic>
#include <cstring>
#include <type_traits>

namespace rueda::core {

/// Copies data that a faulty process may change at any time. The caller must check the copy and use only the copy. The
/// bytes of the copy may come from different times.
template <class T>
[[nodiscard]] T copy_once(const T& shared) {
    static_assert(std::is_trivially_copyable_v<T>);
    if constexpr (std::is_scalar_v<T>) {
        return *static_cast<const volatile T*>(&shared);
    } else {
        T copy;
        std::memcpy(&copy, &shared, sizeof(T));
        // The fence keeps the compiler from reading `shared` again instead of the copy.
        std::atomic_signal_fence(std::memory_order_seq_cst);
        return copy;
    }
}

}  // namespace rueda::core
