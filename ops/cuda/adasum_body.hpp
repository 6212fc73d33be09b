// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The Rueda authors
#pragma once

// Adasum in four kernels, with the bits of ops::adasum() (ops/adasum.hpp has the definitions,
// docs/design/0007-adasum.md the reasons). A part of the tensor is divided into blocks of 4096 elements, and element e
// of a block belongs to lane e mod 8.
//
// 1. rueda_adasum_products: for one lane of one block, one thread adds the products, in the order of the elements.
// 2. rueda_adasum_lanes: for one lane of one part and one pair, one thread adds the sums of the blocks, in order.
// 3. rueda_adasum_weights: one thread adds the lanes and the parts, and computes the weights of the sources.
// 4. rueda_adasum_sum: computes the weighted sum of the sources.
//
// No kernel adds with atomics, so the order of the additions does not depend on timing.

#include "ops/adasum.hpp"
#include "ops/cuda/division.hpp"
#include "ops/cuda/elements.hpp"

namespace rueda::ops::cuda {

inline constexpr std::uint32_t kLanes = DotProducts::kLanes;
inline constexpr std::uint64_t kBlock = DotProducts::kBlock;

/// A part of the tensor.
struct AdasumPart {
    std::uint64_t begin;
    std::uint64_t end;  // `begin` and `end` count elements

    [[nodiscard]] RUEDA_DEVICE std::uint64_t blocks() const { return (end - begin + kBlock - 1) / kBlock; }
};

RUEDA_DEVICE AdasumPart part_of(const AdasumArguments& arguments, std::uint64_t part, std::size_t size) {
    const std::uint64_t bytes = arguments.count * size;
    return {part_begin(bytes, part, arguments.parts) / size, part_begin(bytes, part + 1, arguments.parts) / size};
}

template <class Element>
RUEDA_DEVICE double wide_element(const std::byte* source, std::uint64_t i) {
    using Bits = typename Element::Bits;
    const std::byte* const memory = source + i * sizeof(Bits);
    const bool is_aligned = reinterpret_cast<std::uintptr_t>(source) % sizeof(Bits) == 0;
    return static_cast<double>(Element::load(is_aligned ? load_aligned<Bits>(memory) : load_bytes<Bits>(memory)));
}

/// Parts of three dot products of the sources a and b: a with itself, a with b, and b with itself. A product is 0 if
/// one of its sources is null.
struct LaneSums {
    double aa;
    double ab;
    double bb;
};

template <class Element>
RUEDA_DEVICE LaneSums add_lane(const std::byte* a, const std::byte* b, std::uint64_t begin, std::uint64_t end) {
    LaneSums sums{0, 0, 0};
    if (a != nullptr && b != nullptr) {
        for (std::uint64_t i = begin; i < end; i += kLanes) {
            const double x = wide_element<Element>(a, i);
            const double y = wide_element<Element>(b, i);
            sums.aa += x * x;
            sums.ab += x * y;
            sums.bb += y * y;
        }
        return sums;
    }
    // At least one of the two sources is null. If the other one is not null, its squares are added.
    const std::byte* const left = a != nullptr ? a : b;
    double square = 0;
    if (left != nullptr) {
        for (std::uint64_t i = begin; i < end; i += kLanes) {
            const double x = wide_element<Element>(left, i);
            square += x * x;
        }
    }
    return {a != nullptr ? square : 0, 0, b != nullptr ? square : 0};
}

/// The number of pairs (i, j) with i < j, or 1 if there is only one source: the pair of this source with itself.
RUEDA_DEVICE std::uint64_t groups_of(std::uint32_t sources) { return sources == 1 ? 1 : pairs_of(sources - 1); }

/// Computes parts of the dot products of sources. Each thread computes products of two different sources i and j. If j
/// is i + 1, the thread also computes the products of i with itself. The thread of the last such pair also computes the
/// products of j with itself.
template <class Element>
RUEDA_DEVICE void adasum_products(const AdasumArguments& arguments, const Place& place) {
    const std::uint32_t sources = arguments.source_count;
    const std::uint64_t pairs = pairs_of(sources);
    const std::uint64_t lanes = arguments.blocks_of_part * kLanes;
    const std::uint64_t all = groups_of(sources) * arguments.parts * lanes;
    for (std::uint64_t index = place.index; index < all; index += place.threads) {
        const std::uint64_t lane = index % kLanes;
        const std::uint64_t block = index / kLanes % arguments.blocks_of_part;
        const std::uint64_t part = index / lanes % arguments.parts;
        std::uint64_t group = index / lanes / arguments.parts;
        std::uint32_t i = 0;
        while (i + 1 < sources && group >= sources - 1 - i) {
            group -= sources - 1 - i;
            ++i;
        }
        const std::uint32_t j = sources == 1 ? 0 : static_cast<std::uint32_t>(i + 1 + group);
        const AdasumPart range = part_of(arguments, part, sizeof(typename Element::Bits));
        const std::uint64_t begin = range.begin + block * kBlock;
        const std::uint64_t end = begin + kBlock < range.end ? begin + kBlock : range.end;
        const LaneSums sums = add_lane<Element>(arguments.sources[i], arguments.sources[j], begin + lane, end);
        double* const open = arguments.open + (part * arguments.blocks_of_part + block) * pairs * kLanes + lane;
        open[pair_index(i, j, sources) * kLanes] = sums.ab;
        if (j == i + 1) {
            open[pair_index(i, i, sources) * kLanes] = sums.aa;
            if (j + 1 == sources) {
                open[pair_index(j, j, sources) * kLanes] = sums.bb;
            }
        }
    }
}

RUEDA_DEVICE void adasum_lanes(const AdasumArguments& arguments, const Place& place) {
    const std::uint64_t of_block = pairs_of(arguments.source_count) * kLanes;
    const std::uint64_t all = arguments.parts * of_block;
    for (std::uint64_t index = place.index; index < all; index += place.threads) {
        const std::uint64_t part = index / of_block;
        const double* open = arguments.open + part * arguments.blocks_of_part * of_block + index % of_block;
        const std::uint64_t blocks = part_of(arguments, part, size_of(arguments.dtype)).blocks();
        double sum = 0;
        for (std::uint64_t block = 0; block < blocks; ++block) {
            sum += open[block * of_block];
        }
        arguments.closed[index] = sum;
    }
}

RUEDA_DEVICE double square_root(double v) {
#if defined(__CUDA_ARCH__)
    double root = 0;
    asm("sqrt.rn.f64 %0, %1;" : "=d"(root) : "d"(v));
    return root;
#else
    return __builtin_sqrt(v);
#endif
}

/// The tree of pairs, as in ops/adasum.cpp. One thread computes it.
class WeightTree {
public:
    RUEDA_DEVICE explicit WeightTree(const AdasumArguments& arguments)
        : dots_(arguments.dots), weights_(arguments.weights), sources_(arguments.source_count) {}

    RUEDA_DEVICE void combine_all() {
        std::uint32_t even = 1;
        while (even * 2 <= sources_) {
            even *= 2;
        }
        const std::uint32_t folded = sources_ - even;
        for (std::uint32_t node = 0; node < folded; ++node) {
            combine({2 * node, 2 * node + 1}, {2 * node + 1, 2 * node + 2});
        }
        for (std::uint32_t width = 1; width < even; width *= 2) {
            for (std::uint32_t node = 0; node < even; node += 2 * width) {
                const std::uint32_t middle = begin_of(node + width, folded);
                combine({begin_of(node, folded), middle}, {middle, begin_of(node + 2 * width, folded)});
            }
        }
    }

private:
    /// A node of the tree: the weighted sum of the sources [begin, end).
    struct Node {
        std::uint32_t begin;
        std::uint32_t end;
    };

    static RUEDA_DEVICE std::uint32_t begin_of(std::uint32_t node, std::uint32_t folded) {
        return 2 * node < folded + node ? 2 * node : folded + node;
    }
    [[nodiscard]] RUEDA_DEVICE double dot_of_sources(std::uint32_t i, std::uint32_t j) const {
        return dots_[i < j ? pair_index(i, j, sources_) : pair_index(j, i, sources_)];
    }
    [[nodiscard]] RUEDA_DEVICE double dot(Node a, Node b) const {
        double sum = 0;
        for (std::uint32_t i = a.begin; i < a.end; ++i) {
            double row = 0;
            for (std::uint32_t j = b.begin; j < b.end; ++j) {
                row += weights_[j] * dot_of_sources(i, j);
            }
            sum += weights_[i] * row;
        }
        return sum;
    }
    [[nodiscard]] RUEDA_DEVICE bool vanishes(Node a, double square) const {
        constexpr double kVanishes = 0x1p-44;  // the same limit as in ops/adasum.cpp, which gives the reason for it
        constexpr double kLargest = std::numeric_limits<double>::max();
        double reach = 0;
        for (std::uint32_t i = a.begin; i < a.end; ++i) {
            const double weight = weights_[i];
            reach += (weight < 0 ? -weight : weight) * square_root(dot_of_sources(i, i));
        }
        reach *= reach;
        return square == 0 || (reach <= kLargest && square <= kVanishes * reach);
    }
    RUEDA_DEVICE void combine(Node a, Node b) {
        const double a_square = dot(a, a);
        const double b_square = dot(b, b);
        if (vanishes(a, a_square) || vanishes(b, b_square)) {
            return;  // one of the two nodes counts as zero, so the weights stay unchanged and the result is a + b
        }
        const double product = dot(a, b);
        scale(a, 1 - product / (2 * a_square));
        scale(b, 1 - product / (2 * b_square));
    }
    RUEDA_DEVICE void scale(Node a, double factor) {
        for (std::uint32_t i = a.begin; i < a.end; ++i) {
            weights_[i] *= factor;
        }
    }

    const double* dots_;
    double* weights_;
    std::uint32_t sources_;
};

RUEDA_DEVICE void adasum_weights(const AdasumArguments& arguments, const Place& place) {
    if (place.index != 0) {
        return;
    }
    const std::uint64_t pairs = pairs_of(arguments.source_count);
    for (std::uint64_t pair = 0; pair < pairs; ++pair) {
        double dot = 0;
        for (std::uint64_t part = 0; part < arguments.parts; ++part) {
            const double* const lane = arguments.closed + (part * pairs + pair) * kLanes;
            dot += ((lane[0] + lane[4]) + (lane[2] + lane[6])) + ((lane[1] + lane[5]) + (lane[3] + lane[7]));
        }
        arguments.dots[pair] = dot;
    }
    for (std::uint32_t s = 0; s < arguments.source_count; ++s) {
        arguments.weights[s] = 1.0;
    }
    WeightTree(arguments).combine_all();
    for (std::uint32_t s = 0; s < arguments.source_count; ++s) {
        arguments.weights[s] *= arguments.factor;
    }
}

template <class Element, std::uint32_t kLength>
RUEDA_DEVICE void adasum_sum_at(const AdasumArguments& arguments, const Slot& slot) {
    using Lane = typename Element::Lane;
    double sums[kLength] = {};
    bool is_first = true;
    for (std::uint32_t s = 0; s < arguments.source_count; ++s) {
        if (arguments.sources[s] == nullptr) {
            continue;
        }
        Lane values[kLength];
        load_slot<Element>(values, arguments.sources[s], slot);
        const double weight = arguments.weights[s];
        RUEDA_UNROLL
        for (std::uint32_t i = 0; i < kLength; ++i) {
            // The first product is stored and not added to zero. Adding −0 to zero would lose its sign, because 0 + −0
            // is +0.
            const double product = weight * static_cast<double>(values[i]);
            sums[i] = is_first ? product : sums[i] + product;
        }
        is_first = false;
    }
    Lane results[kLength];
    RUEDA_UNROLL
    for (std::uint32_t i = 0; i < kLength; ++i) {
        results[i] = static_cast<Lane>(sums[i]);
    }
    store_slot<Element>(results, arguments.destination, slot);
}

/// Computes in float64. Rounds the result as on the CPU: to the type itself, or first to float32 and then to a 16-bit
/// type. If all sources are null, the result is zero.
template <class Element>
RUEDA_DEVICE void adasum_sum(const AdasumArguments& arguments, const Place& place) {
    constexpr std::size_t kSize = sizeof(typename Element::Bits);
    Division division(arguments.count, arguments.destination, kSize);
    for (std::uint32_t s = 0; s < arguments.source_count; ++s) {
        if (arguments.sources[s] != nullptr) {
            division.include(arguments.sources[s], kSize);
        }
    }
    for_each_slot<in_vector(kSize)>(division, place, [&](auto length, const Slot& slot) RUEDA_INLINED {
        adasum_sum_at<Element, decltype(length)::value>(arguments, slot);
    });
}

}  // namespace rueda::ops::cuda
