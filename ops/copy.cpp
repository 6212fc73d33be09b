// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The Rueda authors

// This file is compiled once per SIMD target: foreach_target.h includes it again with other values of HWY_TARGET.

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "ops/copy.cpp"
#include <hwy/foreach_target.h>  // must come before highway.h
//
#include <hwy/cache_control.h>
#include <hwy/highway.h>

#include <algorithm>
#include <cstdint>
#include <cstring>

#include "ops/elements-inl.hpp"
#include "ops/reduce.hpp"
#include "ops/streaming-inl.hpp"

HWY_BEFORE_NAMESPACE();
namespace rueda::ops::HWY_NAMESPACE {

/// Copies by writing whole cache lines with stores that bypass the caches. The two ends are copied by memcpy.
void stream_bytes(std::byte* destination, const std::byte* source, std::size_t bytes) {
    const hn::ScalableTag<std::uint8_t> d;
    const std::size_t n = hn::Lanes(d);
    const std::size_t past = reinterpret_cast<std::uintptr_t>(destination) % n;
    std::size_t i = past == 0 ? 0 : std::min(n - past, bytes);
    std::memcpy(destination, source, i);
    for (; i + 4 * n <= bytes; i += 4 * n) {
        const auto v0 = load_lanes(d, source + i);
        const auto v1 = load_lanes(d, source + i + n);
        const auto v2 = load_lanes(d, source + i + 2 * n);
        const auto v3 = load_lanes(d, source + i + 3 * n);
        stream_lanes(d, v0, destination + i);
        stream_lanes(d, v1, destination + i + n);
        stream_lanes(d, v2, destination + i + 2 * n);
        stream_lanes(d, v3, destination + i + 3 * n);
    }
    std::memcpy(destination + i, source + i, bytes - i);
    hwy::FlushStream();
}

const char* target_name() { return hwy::TargetName(HWY_TARGET); }

}  // namespace rueda::ops::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace rueda::ops {
namespace {

HWY_EXPORT(stream_bytes);
HWY_EXPORT(target_name);

/// If a copy has at least this number of bytes, streaming stores are faster. For fewer bytes, the fence after the
/// streaming stores takes longer than a whole copy by memcpy.
constexpr std::size_t kStreamFrom = 1024;

}  // namespace

void copy(std::byte* destination, const std::byte* source, std::size_t bytes, Store store) {
    if (destination == source || bytes == 0) {
        return;
    }
    if (store == Store::streaming && bytes >= kStreamFrom) {
        HWY_DYNAMIC_DISPATCH(stream_bytes)(destination, source, bytes);
    } else {
        std::memcpy(destination, source, bytes);
    }
}

const char* simd_target() { return HWY_DYNAMIC_DISPATCH(target_name)(); }

}  // namespace rueda::ops
#endif  // HWY_ONCE
