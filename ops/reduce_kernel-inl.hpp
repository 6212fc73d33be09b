// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The Rueda authors

// The kernels of reductions, for any element type and operation. This file is included once for each SIMD target, so
// each inclusion toggles its include guard.
//
// A kernel goes through the range in blocks of four vectors. It combines a block of all sources in registers and then
// stores it to all destinations, so each byte is read once and written once. The rest at the end is processed by single
// vectors, then by vectors of 16 bytes, then by single lanes. No vector reaches outside the range. Every lane is
// computed by the same operations at every width, so the bits do not depend on where a block begins.
#if defined(RUEDA_OPS_REDUCE_KERNEL_INL) == defined(HWY_TARGET_TOGGLE)
#ifdef RUEDA_OPS_REDUCE_KERNEL_INL
#undef RUEDA_OPS_REDUCE_KERNEL_INL
#else
#define RUEDA_OPS_REDUCE_KERNEL_INL
#endif

#include <hwy/highway.h>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <type_traits>

#include "ops/elements-inl.hpp"
#include "ops/operations-inl.hpp"
#include "ops/pass.hpp"
#include "ops/streaming-inl.hpp"

HWY_BEFORE_NAMESPACE();
namespace rueda::ops::HWY_NAMESPACE {

/// kSources and kDestinations are the numbers of sources and destinations. They are 0 if the numbers are not known at
/// compile time; the kernel then takes them from the pass.
template <class Element, class Operation, Scaling kScaling, std::size_t kSources, std::size_t kDestinations>
class Kernel {
public:
    using Lane = typename Element::Lane;
    static constexpr std::size_t kBytes = sizeof(typename Element::Memory);

    Kernel(const Pass& pass, double before, double after)
        : pass_(pass), before_(static_cast<Lane>(before)), after_(static_cast<Lane>(after)) {}

    HWY_INLINE void run() {
        const hn::ScalableTag<Lane> whole;
        const hn::CappedTag<Lane, 16 / sizeof(Lane)> small;
        const hn::CappedTag<Lane, 1> single;
        const std::size_t step = hn::Lanes(whole);
        std::size_t i = 0;
        if (pass_.count >= 4 * step) {
            for (const std::size_t head = lanes_to_alignment(whole); i < head; ++i) {
                one_vector(single, i);
            }
            for (; i + 4 * step <= pass_.count; i += 4 * step) {
                four_vectors(whole, i);
            }
        }
        for (; i + step <= pass_.count; i += step) {
            one_vector(whole, i);
        }
        if constexpr (hn::MaxLanes(small) < hn::MaxLanes(whole)) {
            for (; i + hn::Lanes(small) <= pass_.count; i += hn::Lanes(small)) {
                one_vector(small, i);
            }
        }
        for (; i < pass_.count; ++i) {
            one_vector(single, i);
        }
    }

private:
    /// If a pass has fewer bytes than this, the code does not align the destination. To align it, the code would have
    /// to process single lanes first, which costs more than stores that cross cache lines.
    static constexpr std::size_t kAlignFrom = 4096;

    template <class D>
    using MemoryTag = hn::Rebind<typename Element::Memory, D>;

    std::size_t source_count() const { return kSources != 0 ? kSources : pass_.source_count; }
    std::size_t destination_count() const { return kDestinations != 0 ? kDestinations : pass_.destination_count; }

    /// Returns the number of lanes to process one by one until the first destination is aligned. Returns 0 if alignment
    /// is impossible or not worthwhile.
    template <class D>
    HWY_INLINE std::size_t lanes_to_alignment(D d) const {
        const std::size_t vector_bytes = hn::Lanes(d) * kBytes;
        const std::size_t past = reinterpret_cast<std::uintptr_t>(pass_.destinations[0]) % vector_bytes;
        if (past == 0 || past % kBytes != 0 || pass_.count * kBytes < kAlignFrom) {
            return 0;
        }
        return (vector_bytes - past) / kBytes;
    }

    template <class D>
    HWY_INLINE hn::Vec<D> load(D d, std::size_t source, std::size_t i) const {
        const auto v = Element::load(d, pass_.sources[source] + i * kBytes);
        if constexpr (kScaling == Scaling::both) {
            return hn::Mul(v, hn::Set(d, before_));
        } else {
            return v;
        }
    }

    template <class D>
    HWY_INLINE hn::Vec<MemoryTag<D>> finished(D d, hn::Vec<D> v) const {
        if constexpr (kScaling != Scaling::none) {
            v = hn::Mul(v, hn::Set(d, after_));
        }
        if constexpr (hwy::IsFloat<Lane>()) {
            v = canonical_nan(d, v);
        }
        return Element::to_memory(d, v);
    }

    template <class D>
    HWY_INLINE void one_vector(D d, std::size_t i) const {
        auto v = load(d, 0, i);
        for (std::size_t s = 1; s < source_count(); ++s) {
            v = Operation::combine(d, v, load(d, s, i));
        }
        const auto result = finished(d, v);
        for (std::size_t t = 0; t < destination_count(); ++t) {
            store_lanes(MemoryTag<D>(), result, pass_.destinations[t] + i * kBytes);
        }
    }

    // The vectors have four names instead of an array, because on some CPUs (SVE) the compiler does not know their
    // size.
    template <class D>
    HWY_INLINE void four_vectors(D d, std::size_t i) const {
        const std::size_t n = hn::Lanes(d);
        auto v0 = load(d, 0, i);
        auto v1 = load(d, 0, i + n);
        auto v2 = load(d, 0, i + 2 * n);
        auto v3 = load(d, 0, i + 3 * n);
        for (std::size_t s = 1; s < source_count(); ++s) {
            v0 = Operation::combine(d, v0, load(d, s, i));
            v1 = Operation::combine(d, v1, load(d, s, i + n));
            v2 = Operation::combine(d, v2, load(d, s, i + 2 * n));
            v3 = Operation::combine(d, v3, load(d, s, i + 3 * n));
        }
        const MemoryTag<D> d_memory;
        const auto r0 = finished(d, v0);
        const auto r1 = finished(d, v1);
        const auto r2 = finished(d, v2);
        const auto r3 = finished(d, v3);
        for (std::size_t t = 0; t < destination_count(); ++t) {
            std::byte* const memory = pass_.destinations[t] + i * kBytes;
            const std::size_t vector_bytes = n * kBytes;
            if (pass_.streaming && is_aligned(d_memory, memory)) {
                stream_lanes(d_memory, r0, memory);
                stream_lanes(d_memory, r1, memory + vector_bytes);
                stream_lanes(d_memory, r2, memory + 2 * vector_bytes);
                stream_lanes(d_memory, r3, memory + 3 * vector_bytes);
            } else {
                store_lanes(d_memory, r0, memory);
                store_lanes(d_memory, r1, memory + vector_bytes);
                store_lanes(d_memory, r2, memory + 2 * vector_bytes);
                store_lanes(d_memory, r3, memory + 3 * vector_bytes);
            }
        }
    }

    const Pass& pass_;
    Lane before_;
    Lane after_;
};

template <class Element, class Operation, Scaling kScaling>
void run_general(const Pass& pass, double before, double after) {
    Kernel<Element, Operation, kScaling, 0, 0>(pass, before, after).run();
}

/// Copies the pointers into local arrays of known length, so that the compiler can keep them in registers.
template <class Element, Scaling kScaling, std::size_t kSources, std::size_t kDestinations>
void run_fixed_sum(const Pass& pass, double before, double after) {
    const std::byte* sources[kSources];
    std::byte* destinations[kDestinations];
    std::copy_n(pass.sources, kSources, sources);
    std::copy_n(pass.destinations, kDestinations, destinations);
    const Pass local{sources, kSources, destinations, kDestinations, pass.count, pass.streaming};
    Kernel<Element, Sum, kScaling, kSources, kDestinations>(local, before, after).run();
}

template <class Element, Scaling kScaling, std::size_t kSources>
void run_sum_of(const Pass& pass, double before, double after) {
    if (pass.destination_count == 1) {
        run_fixed_sum<Element, kScaling, kSources, 1>(pass, before, after);
    } else if (pass.destination_count == kSources) {
        run_fixed_sum<Element, kScaling, kSources, kSources>(pass, before, after);
    } else {
        run_general<Element, Sum, kScaling>(pass, before, after);
    }
}

/// Selects a kernel for the number of sources. Some kernels have a number that is known at compile time. With data in
/// the caches, this makes sums of 2 to 4 sources 1.5 times as fast, but not sums of 8 sources (Zen 4, 2026-11-21,
/// benchmarks/ops_bench). Each known number adds code for each SIMD target, so only float32 has kernels for 3 and for 4
/// sources.
template <class Element, Scaling kScaling>
void run_sum(const Pass& pass, double before, double after) {
    if (pass.source_count == 2) {
        return run_sum_of<Element, kScaling, 2>(pass, before, after);
    }
    if constexpr (std::is_same_v<Element, Plain<float>>) {
        if (pass.source_count == 3) {
            return run_sum_of<Element, kScaling, 3>(pass, before, after);
        }
        if (pass.source_count == 4) {
            return run_sum_of<Element, kScaling, 4>(pass, before, after);
        }
    }
    run_general<Element, Sum, kScaling>(pass, before, after);
}

template <class Element>
void run_float(const Reduction& reduction, const Pass& pass) {
    const double before = reduction.prescale;
    const double after =
        reduction.op == ReduceOp::average ? reduction.postscale / reduction.divisor : reduction.postscale;
    switch (reduction.op) {
        case ReduceOp::min:
            return run_general<Element, Min, Scaling::both>(pass, before, after);
        case ReduceOp::max:
            return run_general<Element, Max, Scaling::both>(pass, before, after);
        case ReduceOp::product:
            return run_general<Element, Product, Scaling::both>(pass, before, after);
        case ReduceOp::sum:
        case ReduceOp::average:
        case ReduceOp::adasum:
            break;
    }
    if (before != 1.0) {
        run_sum<Element, Scaling::both>(pass, before, after);
    } else if (after != 1.0) {
        run_sum<Element, Scaling::after>(pass, before, after);
    } else {
        run_sum<Element, Scaling::none>(pass, before, after);
    }
}

}  // namespace rueda::ops::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#endif  // RUEDA_OPS_REDUCE_KERNEL_INL
