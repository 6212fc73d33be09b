// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The Rueda authors
#include "adasum_reference.hpp"

#include <algorithm>
#include <array>
#include <cmath>
#include <cstring>
#include <limits>
#include <numeric>
#include <utility>

namespace rueda::ops::test {
namespace {

using Vector = std::vector<long double>;

Vector pair_of(const Vector& a, const Vector& b) {
    const long double aa = std::inner_product(a.begin(), a.end(), a.begin(), 0.0L);
    const long double bb = std::inner_product(b.begin(), b.end(), b.begin(), 0.0L);
    const long double ab = std::inner_product(a.begin(), a.end(), b.begin(), 0.0L);
    const bool adds = aa == 0 || bb == 0;
    Vector result;
    for (std::size_t i = 0; i < a.size(); ++i) {
        result.push_back(adds ? a[i] + b[i] : (1 - ab / (2 * aa)) * a[i] + (1 - ab / (2 * bb)) * b[i]);
    }
    return result;
}

double value_of(DType dtype, const Bytes& elements, std::size_t i) {
    if (dtype == DType::float64) {
        double value = 0;
        std::memcpy(&value, elements.data() + i * sizeof(value), sizeof(value));
        return value;
    }
    if (dtype == DType::float32) {
        float value = 0;
        std::memcpy(&value, elements.data() + i * sizeof(value), sizeof(value));
        return static_cast<double>(value);
    }
    std::uint16_t bits = 0;
    std::memcpy(&bits, elements.data() + i * size_of(dtype), size_of(dtype));
    return decode(dtype, bits);
}

void store(DType dtype, double value, Bytes& elements, std::size_t i) {
    if (dtype == DType::float64) {
        value = std::isnan(value) ? std::numeric_limits<double>::quiet_NaN() : value;
        std::memcpy(elements.data() + i * sizeof(value), &value, sizeof(value));
        return;
    }
    const float narrow = std::isnan(value) ? std::numeric_limits<float>::quiet_NaN() : static_cast<float>(value);
    if (dtype == DType::float32) {
        std::memcpy(elements.data() + i * sizeof(narrow), &narrow, sizeof(narrow));
        return;
    }
    const std::uint16_t bits = encode(dtype, static_cast<double>(narrow));
    std::memcpy(elements.data() + i * sizeof(bits), &bits, sizeof(bits));
}

/// Computes the dot product of the elements [begin, end) in eight lanes. After every 4096 elements, the sums of the
/// eight lanes are added to eight total sums.
double dot_of_part(DType dtype, const Bytes& a, const Bytes& b, std::size_t begin, std::size_t end) {
    std::array<double, 8> all{};
    for (std::size_t block = begin; block < end; block += 4096) {
        std::array<double, 8> lanes{};
        for (std::size_t i = block; i < std::min(block + 4096, end); ++i) {
            lanes[(i - block) % 8] += value_of(dtype, a, i) * value_of(dtype, b, i);
        }
        for (std::size_t lane = 0; lane < 8; ++lane) {
            all[lane] += lanes[lane];
        }
    }
    return ((all[0] + all[4]) + (all[2] + all[6])) + ((all[1] + all[5]) + (all[3] + all[7]));
}

double dot_of(DType dtype, const Bytes& a, const Bytes& b, std::uint32_t owners, std::uint32_t of_each) {
    const std::size_t element = size_of(dtype);
    const std::size_t lines = (a.size() + 63) / 64;
    const auto cut = [&](std::size_t part) {
        return std::min(a.size(), lines * part / (owners * of_each) * 64) / element;
    };
    double sum = 0;
    for (std::uint32_t owner = 0; owner < owners; ++owner) {
        double own = 0;
        for (std::uint32_t part = owner * of_each; part < (owner + 1) * of_each; ++part) {
            own += dot_of_part(dtype, a, b, cut(part), cut(part + 1));
        }
        sum = owner == 0 ? own : sum + own;
    }
    return sum;
}

using Matrix = std::vector<std::vector<double>>;

/// A combination of consecutive source vectors. It has one weight for each vector. `begin` is the number of the first
/// vector.
struct Node {
    std::size_t begin;
    std::vector<double> weights;
};

double form(const Matrix& dots, const Node& a, const Node& b) {
    double sum = 0;
    for (std::size_t i = 0; i < a.weights.size(); ++i) {
        double row = 0;
        for (std::size_t j = 0; j < b.weights.size(); ++j) {
            row += b.weights[j] * dots[a.begin + i][b.begin + j];
        }
        sum += a.weights[i] * row;
    }
    return sum;
}

bool is_nothing(const Matrix& dots, const Node& a, double square) {
    double reach = 0;
    for (std::size_t i = 0; i < a.weights.size(); ++i) {
        reach += std::fabs(a.weights[i]) * std::sqrt(dots[a.begin + i][a.begin + i]);
    }
    return square == 0 || (std::isfinite(reach * reach) && square <= std::ldexp(reach * reach, -44));
}

Node join(const Matrix& dots, Node a, const Node& b) {
    const double aa = form(dots, a, a);
    const double bb = form(dots, b, b);
    const double ab = form(dots, a, b);
    const bool adds = is_nothing(dots, a, aa) || is_nothing(dots, b, bb);
    for (double& weight : a.weights) {
        weight *= adds ? 1 : 1 - ab / (2 * aa);
    }
    for (const double weight : b.weights) {
        a.weights.push_back(weight * (adds ? 1 : 1 - ab / (2 * bb)));
    }
    return a;
}

/// First combines pairs at the front of the list until the number of items is a power of two. Then combines all items
/// in pairs, again and again, until one item is left.
template <class T, class Join>
T by_tree(std::vector<T> items, Join&& combine) {
    std::size_t even = 1;
    while (2 * even <= items.size()) {
        even *= 2;
    }
    std::vector<T> next;
    const std::size_t folded = items.size() - even;
    for (std::size_t i = 0; i < items.size(); i += i < 2 * folded ? 2 : 1) {
        next.push_back(i < 2 * folded ? combine(items[i], items[i + 1]) : items[i]);
    }
    while (next.size() > 1) {
        items = std::exchange(next, {});
        for (std::size_t i = 0; i < items.size(); i += 2) {
            next.push_back(combine(items[i], items[i + 1]));
        }
    }
    return next.front();
}

}  // namespace

std::vector<long double> adasum_of_vectors(std::vector<std::vector<long double>> vectors) {
    return by_tree(std::move(vectors), pair_of);
}

Bytes expected_adasum(const Reduction& reduction, const std::vector<Bytes>& sources, std::size_t count,
                      std::uint32_t owners, std::uint32_t of_each) {
    Matrix dots(sources.size(), std::vector<double>(sources.size()));
    std::vector<Node> leaves;
    for (std::size_t i = 0; i < sources.size(); ++i) {
        for (std::size_t j = i; j < sources.size(); ++j) {
            dots[i][j] = dots[j][i] = dot_of(reduction.dtype, sources[i], sources[j], owners, of_each);
        }
        leaves.push_back({i, {1.0}});
    }
    const Node root = by_tree(leaves, [&](const Node& a, const Node& b) { return join(dots, a, b); });
    Bytes result(count * size_of(reduction.dtype));
    for (std::size_t i = 0; i < count; ++i) {
        double sum = 0;
        for (std::size_t s = 0; s < sources.size(); ++s) {
            const double term =
                root.weights[s] * (reduction.prescale * reduction.postscale) * value_of(reduction.dtype, sources[s], i);
            sum = s == 0 ? term : sum + term;
        }
        store(reduction.dtype, sum, result, i);
    }
    return result;
}

std::vector<long double> values_of(DType dtype, const Bytes& elements) {
    Vector values;
    for (std::size_t i = 0; i < elements.size() / size_of(dtype); ++i) {
        values.push_back(static_cast<long double>(value_of(dtype, elements, i)));
    }
    return values;
}

Bytes random_gradients(DType dtype, std::size_t count, std::mt19937_64& random) {
    Bytes elements(count * size_of(dtype));
    const bool zeros = random() % 8 == 0;
    const auto nan_at = random() % 16 == 0 ? random() % std::max<std::size_t>(count, 1) : count;
    // A mean above zero gives all ranks' vectors a common part, so that their dot products are not almost zero.
    std::normal_distribution<double> normal(0.3, 1.0);
    for (std::size_t i = 0; i < count; ++i) {
        const double value = normal(random);
        store(dtype, i == nan_at ? std::numeric_limits<double>::quiet_NaN() : zeros ? 0.0 : value, elements, i);
    }
    return elements;
}

}  // namespace rueda::ops::test
