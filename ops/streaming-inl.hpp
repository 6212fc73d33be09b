// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The Rueda authors

// Stores that bypass the caches. This file is included once for each SIMD target, so each inclusion toggles its include
// guard.
#if defined(RUEDA_OPS_STREAMING_INL) == defined(HWY_TARGET_TOGGLE)
#ifdef RUEDA_OPS_STREAMING_INL
#undef RUEDA_OPS_STREAMING_INL
#else
#define RUEDA_OPS_STREAMING_INL
#endif

#include <hwy/highway.h>

#include <cstddef>
#include <cstdint>

#include "ops/elements-inl.hpp"

HWY_BEFORE_NAMESPACE();
namespace rueda::ops::HWY_NAMESPACE {

/// Whether stores of this vector type can bypass the caches. Only whole vectors of at least 16 bytes can do this,
/// because Highway writes 16 bytes even for smaller vectors.
template <class D>
constexpr bool can_stream(D /*d*/) {
    return HWY_TARGET != HWY_SCALAR && hn::MaxLanes(D()) * sizeof(hn::TFromD<D>) >= 16;
}

template <class D>
HWY_INLINE bool is_aligned(D d, const std::byte* memory) {
    return reinterpret_cast<std::uintptr_t>(memory) % (hn::Lanes(d) * sizeof(hn::TFromD<D>)) == 0;
}

template <class D>
HWY_INLINE void stream_lanes(D d, hn::Vec<D> v, std::byte* memory) {
    if constexpr (can_stream(D())) {
        hn::Stream(v, d, reinterpret_cast<hn::TFromD<D>*>(memory));
    } else {
        store_lanes(d, v, memory);
    }
}

}  // namespace rueda::ops::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#endif  // RUEDA_OPS_STREAMING_INL
