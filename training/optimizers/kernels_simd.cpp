// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The Rueda authors

// This file is compiled once per SIMD target: foreach_target.h includes it again with other values of HWY_TARGET.
//
// The bits of the results are the same on every target, for three reasons. All operations on elements (+, −, ·, /, √)
// are rounded as IEEE 754 demands. Fused multiply-add is not used, because not every CPU has it. Sums are always added
// in eight lanes.

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "training/optimizers/kernels_simd.cpp"
#include <hwy/foreach_target.h>  // must come before highway.h
//
#include <hwy/cache_control.h>
#include <hwy/highway.h>

#include <algorithm>
#include <array>
#include <cmath>

#include "training/optimizers/kernels.hpp"

HWY_BEFORE_NAMESPACE();
namespace rueda::training::HWY_NAMESPACE {

namespace hn = hwy::HWY_NAMESPACE;

/// Calls body(d, i) for whole vectors from element `begin` on, and at the end for single elements.
template <class Body>
HWY_INLINE void for_elements(std::size_t begin, std::size_t end, const Body& body) {
    const hn::ScalableTag<float> whole;
    const hn::CappedTag<float, 1> single;
    std::size_t i = begin;
    for (; i + hn::Lanes(whole) <= end; i += hn::Lanes(whole)) {
        body(whole, i);
    }
    for (; i < end; ++i) {
        body(single, i);
    }
}

/// How far load() reads ahead: 2 KiB. The CPU's own prefetchers stop at the end of each page of 4 KiB, which probably
/// costs most if a kernel reads few arrays. With tensors of 100 MiB, reading ahead takes 12 to 18 % off the time of SGD
/// and LAMB (Xeon with AVX-512); 1 KiB and 4 KiB have about the same effect. Tensors in the first-level cache take up
/// to 15 % longer with it, which is less than 0.3 µs for each tensor.
constexpr std::size_t kAhead = 512;

/// Loads the elements of an array that the kernel reads from its beginning to its end. The address that is fetched
/// ahead may be behind the end of the array: fetching it has no effect, and never fails.
template <class D>
HWY_INLINE hn::Vec<D> load(D d, const float* from) {
    hwy::Prefetch(from + kAhead);
    return hn::LoadU(d, from);
}

/// Returns the factor times the gradient, plus the decay times the parameter.
template <class D>
HWY_INLINE hn::Vec<D> decayed_gradient(D d, float factor, float decay, hn::Vec<D> values, const float* gradient) {
    const auto scaled = hn::Mul(hn::Set(d, factor), load(d, gradient));
    return hn::Add(scaled, hn::Mul(hn::Set(d, decay), values));
}

template <bool has_momentum>
void sgd_elements(const SgdUpdate& update, const UpdateMemory& memory) {
    for_elements(0, memory.count, [&](auto d, std::size_t i) HWY_ATTR {
        const auto w = load(d, memory.values + i);
        const auto g = decayed_gradient(d, update.factor, update.decay, w, memory.gradient + i);
        auto direction = g;
        if constexpr (has_momentum) {
            const auto momentum = hn::Set(d, update.momentum);
            const auto u =
                hn::Add(hn::Mul(momentum, load(d, memory.first + i)), hn::Mul(hn::Set(d, update.undamped), g));
            hn::StoreU(u, d, memory.first + i);
            direction = update.nesterov ? hn::Add(g, hn::Mul(momentum, u)) : u;
        }
        hn::StoreU(hn::Sub(w, hn::Mul(hn::Set(d, update.rate), direction)), d, memory.values + i);
    });
}

void sgd_kernel(const SgdUpdate& update, const UpdateMemory& memory) {
    memory.first != nullptr ? sgd_elements<true>(update, memory) : sgd_elements<false>(update, memory);
}

/// Computes the new moments m and v of Adam and LAMB.
template <class Update, class D>
HWY_INLINE void advance_moments(const Update& update, D d, hn::Vec<D> g, hn::Vec<D>& m, hn::Vec<D>& v) {
    m = hn::Add(m, hn::Mul(hn::Set(d, update.first_share), hn::Sub(g, m)));
    v = hn::Add(hn::Mul(hn::Set(d, update.beta2), v), hn::Mul(hn::Set(d, update.second_share), hn::Mul(g, g)));
}

/// √v̂ + ε.
template <class Update, class D>
HWY_INLINE hn::Vec<D> denominator(const Update& update, D d, hn::Vec<D> v) {
    return hn::Add(hn::Mul(hn::Sqrt(v), hn::Set(d, update.second_correction)), hn::Set(d, update.epsilon));
}

void adam_kernel(const AdamUpdate& update, const UpdateMemory& memory) {
    for_elements(0, memory.count, [&](auto d, std::size_t i) HWY_ATTR {
        auto w = load(d, memory.values + i);
        const auto g = decayed_gradient(d, update.factor, update.decay, w, memory.gradient + i);
        auto m = load(d, memory.first + i);
        auto v = load(d, memory.second + i);
        advance_moments(update, d, g, m, v);
        hn::StoreU(m, d, memory.first + i);
        hn::StoreU(v, d, memory.second + i);
        w = hn::Mul(w, hn::Set(d, update.shrink));
        const auto step = hn::Div(hn::Mul(hn::Set(d, update.rate), m), denominator(update, d, v));
        hn::StoreU(hn::Sub(w, step), d, memory.values + i);
    });
}

void adagrad_kernel(const AdagradUpdate& update, const UpdateMemory& memory) {
    for_elements(0, memory.count, [&](auto d, std::size_t i) HWY_ATTR {
        const auto w = load(d, memory.values + i);
        const auto g = decayed_gradient(d, update.factor, update.decay, w, memory.gradient + i);
        const auto n = hn::Add(load(d, memory.first + i), hn::Mul(g, g));
        hn::StoreU(n, d, memory.first + i);
        const auto step =
            hn::Div(hn::Mul(hn::Set(d, update.rate), g), hn::Add(hn::Sqrt(n), hn::Set(d, update.epsilon)));
        hn::StoreU(hn::Sub(w, step), d, memory.values + i);
    });
}

void ftrl_kernel(const FtrlUpdate& update, const UpdateMemory& memory) {
    for_elements(0, memory.count, [&](auto d, std::size_t i) HWY_ATTR {
        const auto inverse_rate = hn::Set(d, update.inverse_rate);
        const auto l1 = hn::Set(d, update.l1);
        const auto w = load(d, memory.values + i);
        const auto g = hn::Mul(hn::Set(d, update.factor), load(d, memory.gradient + i));
        const auto old_n = load(d, memory.second + i);
        const auto n = hn::Add(old_n, hn::Mul(g, g));
        const auto root = hn::Sqrt(n);
        const auto old_root = hn::Sqrt(old_n);
        const auto beta = hn::Set(d, update.beta);
        // σ is (beta + √n) / η minus the same expression of the previous step. In this form, no digits cancel if the
        // rate stays the same or changes a little.
        const auto sigma = hn::Add(hn::Mul(hn::Sub(root, old_root), inverse_rate),
                                   hn::Mul(hn::Add(beta, old_root), hn::Set(d, update.inverse_change)));
        const auto z = hn::Add(load(d, memory.first + i), hn::Sub(g, hn::Mul(sigma, w)));
        hn::StoreU(z, d, memory.first + i);
        hn::StoreU(n, d, memory.second + i);
        const auto curvature = hn::Add(hn::Mul(hn::Add(beta, root), inverse_rate), hn::Set(d, update.l2));
        const auto moved = hn::Div(hn::Sub(hn::CopySign(l1, z), z), curvature);
        hn::StoreU(hn::IfThenElse(hn::Le(hn::Abs(z), l1), hn::Zero(d), moved), d, memory.values + i);
    });
}

constexpr std::size_t kSumLanes = 8;
using SumLanes = std::array<double, kSumLanes>;

/// Adds the square of element i to lane i mod 8. If a vector of the target has fewer than eight lanes, the loop reads
/// the elements several times. They are then in the first-level cache.
HWY_INLINE void add_squares(const float* values, std::size_t count, SumLanes& lanes) {
    const hn::CappedTag<double, kSumLanes> d;
    const hn::Rebind<float, decltype(d)> d_float;
    const std::size_t whole = count / kSumLanes * kSumLanes;
    for (std::size_t lane = 0; lane < kSumLanes; lane += hn::Lanes(d)) {
        auto sum = hn::LoadU(d, lanes.data() + lane);
        for (std::size_t i = lane; i < whole; i += kSumLanes) {
            const auto x = hn::PromoteTo(d, hn::LoadU(d_float, values + i));
            sum = hn::Add(sum, hn::Mul(x, x));
        }
        hn::StoreU(sum, d, lanes.data() + lane);
    }
    for (std::size_t i = whole; i < count; ++i) {
        const double x = values[i];
        lanes[i - whole] += x * x;
    }
}

HWY_INLINE double total_of(const SumLanes& lanes) {
    double total = 0.0;
    for (const double lane : lanes) {
        total += lane;
    }
    return total;
}

/// The number of elements that are processed together, a multiple of 8. The arrays of one block fit into the
/// first-level cache.
constexpr std::size_t kBlock = 512;

double squares_kernel(const float* values, std::size_t count) {
    SumLanes lanes{};
    for (std::size_t i = 0; i < count; i += kBlock) {
        add_squares(values + i, std::min(kBlock, count - i), lanes);
    }
    return total_of(lanes);
}

/// u = m̂ / (√v̂ + ε) + λ w.
template <class D>
HWY_INLINE hn::Vec<D> lamb_direction(const LambUpdate& update, D d, hn::Vec<D> w, hn::Vec<D> m, hn::Vec<D> v) {
    const auto corrected = hn::Mul(m, hn::Set(d, update.first_correction));
    return hn::Add(hn::Div(corrected, denominator(update, d, v)), hn::Mul(hn::Set(d, update.decay), w));
}

/// Updates the moments and returns ‖w‖ / ‖u‖.
double lamb_moments(const LambUpdate& update, const UpdateMemory& memory) {
    SumLanes values_squares{};
    SumLanes direction_squares{};
    std::array<float, kBlock> direction;
    for (std::size_t begin = 0; begin < memory.count; begin += kBlock) {
        const std::size_t end = std::min(begin + kBlock, memory.count);
        for_elements(begin, end, [&](auto d, std::size_t i) HWY_ATTR {
            const auto w = load(d, memory.values + i);
            const auto g = hn::Mul(hn::Set(d, update.factor), load(d, memory.gradient + i));
            auto m = load(d, memory.first + i);
            auto v = load(d, memory.second + i);
            advance_moments(update, d, g, m, v);
            hn::StoreU(m, d, memory.first + i);
            hn::StoreU(v, d, memory.second + i);
            hn::StoreU(lamb_direction(update, d, w, m, v), d, direction.data() + (i - begin));
        });
        add_squares(memory.values + begin, end - begin, values_squares);
        add_squares(direction.data(), end - begin, direction_squares);
    }
    const double values_norm = std::sqrt(total_of(values_squares));
    const double direction_norm = std::sqrt(total_of(direction_squares));
    return values_norm > 0.0 && direction_norm > 0.0 ? values_norm / direction_norm : 1.0;
}

void lamb_kernel(const LambUpdate& update, const UpdateMemory& memory) {
    const double ratio = lamb_moments(update, memory);
    const auto rate = static_cast<float>(update.rate * (update.adapts ? ratio : 1.0));
    for_elements(0, memory.count, [&](auto d, std::size_t i) HWY_ATTR {
        const auto w = load(d, memory.values + i);
        const auto u = lamb_direction(update, d, w, load(d, memory.first + i), load(d, memory.second + i));
        hn::StoreU(hn::Sub(w, hn::Mul(hn::Set(d, rate), u)), d, memory.values + i);
    });
}

}  // namespace rueda::training::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace rueda::training {
namespace {

HWY_EXPORT(sgd_kernel);
HWY_EXPORT(adam_kernel);
HWY_EXPORT(adagrad_kernel);
HWY_EXPORT(ftrl_kernel);
HWY_EXPORT(lamb_kernel);
HWY_EXPORT(squares_kernel);

}  // namespace

void update_elements(const SgdUpdate& update, const UpdateMemory& memory) {
    HWY_DYNAMIC_DISPATCH(sgd_kernel)(update, memory);
}

void update_elements(const AdamUpdate& update, const UpdateMemory& memory) {
    HWY_DYNAMIC_DISPATCH(adam_kernel)(update, memory);
}

void update_elements(const AdagradUpdate& update, const UpdateMemory& memory) {
    HWY_DYNAMIC_DISPATCH(adagrad_kernel)(update, memory);
}

void update_elements(const FtrlUpdate& update, const UpdateMemory& memory) {
    HWY_DYNAMIC_DISPATCH(ftrl_kernel)(update, memory);
}

void update_elements(const LambUpdate& update, const UpdateMemory& memory) {
    HWY_DYNAMIC_DISPATCH(lamb_kernel)(update, memory);
}

double sum_of_squares(std::span<const float> values) {
    return HWY_DYNAMIC_DISPATCH(squares_kernel)(values.data(), values.size());
}

}  // namespace rueda::training
#endif  // HWY_ONCE
