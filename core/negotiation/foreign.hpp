// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The Rueda authors
#pragma once

#include <atomic>
#include <cstring>
#include <type_traits>

namespace rueda::core {

/// A copy of what another process may write at any time, if it does what no working rank does: what is checked in the
/// copy is what is used. Not a snapshot: the bytes may be of several moments.
template <class T>
[[nodiscard]] T copy_once(const T& shared) {
    static_assert(std::is_trivially_copyable_v<T>);
    if constexpr (std::is_scalar_v<T>) {
        return *static_cast<const volatile T*>(&shared);
    } else {
        T copy;
        std::memcpy(&copy, &shared, sizeof(T));
        // The compiler must not go back to the original after this.
        std::atomic_signal_fence(std::memory_order_seq_cst);
        return copy;
    }
}

}  // namespace rueda::core
