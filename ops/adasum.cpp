// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The Rueda authors
#include "ops/adasum.hpp"

#include <algorithm>
#include <array>
#include <bit>
#include <cmath>
#include <cstring>
#include <vector>

#include "base/assert.hpp"
#include "ops/adasum_kernels.hpp"

namespace rueda::ops {
namespace {

/// A node of the tree counts as zero if its squared norm is below this fraction (5.7e-14) of a limit: the largest
/// squared norm that a sum of the node's inputs could have. The fraction is larger than the rounding errors. If inputs
/// cancel each other, the computed squared norm of the result has an error of about 1e-15 times the inputs' squared
/// norms.
constexpr double kVanishes = 0x1p-44;

/// Computes how the sources are combined in a tree of pairs. It does not read the sources themselves, but only the
/// matrix of their dot products. From the matrix it computes the weight of each source in the result.
class Tree {
public:
    Tree(std::span<const double> dots, std::span<double> weights) : dots_(dots), weights_(weights) {}

    void combine() {
        const std::size_t all = weights_.size();
        const std::size_t even = std::bit_floor(all);
        const std::size_t folded = all - even;
        const auto begin_of = [&](std::size_t node) { return std::min(2 * node, folded + node); };
        for (std::size_t node = 0; node < folded; ++node) {
            combine({2 * node, 2 * node + 1}, {2 * node + 1, 2 * node + 2});
        }
        for (std::size_t width = 1; width < even; width *= 2) {
            for (std::size_t node = 0; node < even; node += 2 * width) {
                const std::size_t middle = begin_of(node + width);
                combine({begin_of(node), middle}, {middle, begin_of(node + 2 * width)});
            }
        }
    }

private:
    /// A node of the tree: the weighted sum of the sources [begin, end).
    struct Vector {
        std::size_t begin;
        std::size_t end;
    };

    [[nodiscard]] double dot_of_sources(std::size_t i, std::size_t j) const {
        return dots_[pair_index(std::min(i, j), std::max(i, j), weights_.size())];
    }
    [[nodiscard]] double dot(Vector a, Vector b) const {
        double sum = 0;
        for (std::size_t i = a.begin; i < a.end; ++i) {
            double row = 0;
            for (std::size_t j = b.begin; j < b.end; ++j) {
                row += weights_[j] * dot_of_sources(i, j);
            }
            sum += weights_[i] * row;
        }
        return sum;
    }
    [[nodiscard]] bool vanishes(Vector a, double square) const {
        double reach = 0;
        for (std::size_t i = a.begin; i < a.end; ++i) {
            reach += std::abs(weights_[i]) * std::sqrt(dot_of_sources(i, i));
        }
        reach *= reach;
        return square == 0 || (std::isfinite(reach) && square <= kVanishes * reach);
    }
    void combine(Vector a, Vector b) {
        const double a_square = dot(a, a);
        const double b_square = dot(b, b);
        if (vanishes(a, a_square) || vanishes(b, b_square)) {
            return;  // one of the two nodes counts as zero, so the weights stay unchanged and the result is a + b
        }
        const double product = dot(a, b);
        scale(a, 1 - product / (2 * a_square));
        scale(b, 1 - product / (2 * b_square));
    }
    void scale(Vector a, double factor) {
        for (std::size_t i = a.begin; i < a.end; ++i) {
            weights_[i] *= factor;
        }
    }

    std::span<const double> dots_;
    std::span<double> weights_;
};

/// All sources are processed in blocks that together have this size in bytes. A block is read several times, so it must
/// stay in the first-level cache.
constexpr std::size_t kBytesAtATime = 16 * 1024;

std::size_t elements_at_a_time(DType dtype, std::size_t sources) {
    const std::size_t fitting = kBytesAtATime / size_of(dtype) / std::max<std::size_t>(sources, 1);
    return std::max(fitting / DotProducts::kLanes, std::size_t{1}) * DotProducts::kLanes;
}

}  // namespace

void DotProducts::begin(DType dtype, std::size_t sources) {
    dtype_ = dtype;
    sources_ = sources;
    in_block_ = 0;
    open_.assign(kLanes * pairs_of(sources), 0.0);
    closed_.assign(open_.size(), 0.0);
}

void DotProducts::add(std::span<const std::byte* const> sources, std::size_t count) {
    RUEDA_ASSERT(sources.size() == sources_);
    memory_.clear();
    index_.clear();
    for (std::uint32_t source = 0; source < sources.size(); ++source) {
        if (sources[source] != nullptr) {
            memory_.push_back(sources[source]);
            index_.push_back(source);
        }
    }
    while (count > 0) {
        const std::size_t lane = in_block_ % kLanes;
        std::size_t now = 0;
        if (lane != 0 || count < kLanes) {
            now = std::min(count, kLanes - lane);
            add_products_singly(dtype_, {memory_.data(), index_.data(), memory_.size(), sources_}, now, lane,
                                open_.data());
        } else {
            now = std::min({count / kLanes * kLanes, kBlock - in_block_, elements_at_a_time(dtype_, memory_.size())});
            add_products(dtype_, {memory_.data(), index_.data(), memory_.size(), sources_}, now, open_.data());
        }
        advance(now);
        count -= now;
    }
}

void DotProducts::advance(std::size_t count) {
    for (const std::byte*& memory : memory_) {
        memory += count * size_of(dtype_);
    }
    in_block_ += count;
    if (in_block_ == kBlock) {
        close_block();
    }
}

void DotProducts::close_block() {
    for (std::size_t i = 0; i < open_.size(); ++i) {
        closed_[i] += open_[i];
        open_[i] = 0;
    }
    in_block_ = 0;
}

void DotProducts::end(std::span<double> dots) {
    RUEDA_ASSERT(dots.size() == pairs_of(sources_));
    close_block();
    for (std::size_t pair = 0; pair < dots.size(); ++pair) {
        const double* const lane = closed_.data() + kLanes * pair;
        dots[pair] += ((lane[0] + lane[4]) + (lane[2] + lane[6])) + ((lane[1] + lane[5]) + (lane[3] + lane[7]));
    }
}

void adasum_weights(std::span<const double> dots, double factor, std::span<double> weights) {
    RUEDA_ASSERT(dots.size() == pairs_of(weights.size()));
    std::fill(weights.begin(), weights.end(), 1.0);
    Tree(dots, weights).combine();
    for (double& weight : weights) {
        weight *= factor;
    }
}

void weighted_sum(DType dtype, std::span<const std::byte* const> sources, std::span<const double> weights,
                  std::span<std::byte* const> destinations, std::size_t count) {
    RUEDA_ASSERT(sources.size() == weights.size());
    if (count == 0) {
        return;
    }
    std::size_t first = 0;
    while (first < sources.size() && sources[first] == nullptr) {
        ++first;
    }
    if (first == sources.size()) {
        for (std::byte* destination : destinations) {
            std::memset(destination, 0, count * size_of(dtype));
        }
        return;
    }
    add_weighted(dtype, sources.data() + first, weights.data() + first, sources.size() - first, destinations.data(),
                 destinations.size(), count);
}

void adasum(const Reduction& reduction, std::span<const std::byte* const> sources,
            std::span<std::byte* const> destinations, std::size_t count) {
    const std::size_t parts = sources.size();
    const std::size_t element = size_of(reduction.dtype);
    const std::uint64_t bytes = std::uint64_t{count} * element;
    constexpr std::size_t kFew = 8;
    std::array<double, pairs_of(kFew) + kFew> few{};
    std::array<const std::byte*, kFew> few_places;
    std::vector<double> many;
    std::vector<const std::byte*> many_places;
    std::span<double> numbers = few;
    std::span<const std::byte*> places = few_places;
    if (parts > kFew) {
        many.resize(pairs_of(parts) + parts);
        many_places.resize(parts);
        numbers = many;
        places = many_places;
    }
    const std::span<double> dots = numbers.first(pairs_of(parts));
    const std::span<double> weights = numbers.subspan(pairs_of(parts), parts);
    DotProducts products;
    for (std::size_t part = 0; part < parts; ++part) {
        const std::uint64_t begin = part_begin(bytes, part, parts);
        const std::uint64_t end = part_begin(bytes, part + 1, parts);
        for (std::size_t s = 0; s < parts; ++s) {
            places[s] = sources[s] != nullptr ? sources[s] + begin : nullptr;
        }
        products.begin(reduction.dtype, parts);
        products.add(places.first(parts), (end - begin) / element);
        products.end(dots);
    }
    adasum_weights(dots, reduction.prescale * reduction.postscale, weights);
    weighted_sum(reduction.dtype, sources, weights, destinations, count);
}

}  // namespace rueda::ops
