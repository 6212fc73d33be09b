// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The Rueda authors
#include "reference.hpp"

#include <algorithm>
#include <cmath>
#include <cstring>
#include <limits>
#include <type_traits>

namespace rueda::ops::test {
namespace {

__extension__ using Int128 = __int128;
__extension__ using UInt128 = unsigned __int128;
__extension__ using Float128 = __float128;

template <class T>
T element(const Bytes& bytes, std::size_t i) {
    T value;
    std::memcpy(&value, bytes.data() + i * sizeof(T), sizeof(T));
    return value;
}

template <class T>
void append(Bytes& bytes, T value) {
    const std::size_t at = bytes.size();
    bytes.resize(at + sizeof(T));
    std::memcpy(bytes.data() + at, &value, sizeof(T));
}

// Integers ------------------------------------------------------------------------------------------------------------

/// Converts a double to an integer as the library does. The comparison with the limits is exact, because x87's long
/// double represents every 64-bit integer.
template <class T>
Int128 cut(double value) {
    if (std::isnan(value)) {
        return 0;
    }
    const long double whole = std::trunc(static_cast<long double>(value));
    if (whole > static_cast<long double>(std::numeric_limits<T>::max())) {
        return std::numeric_limits<T>::max();
    }
    if (whole < static_cast<long double>(std::numeric_limits<T>::min())) {
        return std::numeric_limits<T>::min();
    }
    return static_cast<Int128>(whole);
}

template <class T>
T integer_result(const Reduction& r, const std::vector<Bytes>& sources, std::size_t i) {
    Int128 all = 0;
    for (std::size_t s = 0; s < sources.size(); ++s) {
        Int128 x = element<T>(sources[s], i);
        if (r.prescale != 1.0) {
            x = cut<T>(static_cast<double>(static_cast<T>(x)) * r.prescale);
        }
        if (s == 0) {
            all = x;
        } else if (r.op == ReduceOp::product) {
            all = static_cast<Int128>(static_cast<UInt128>(all) * static_cast<UInt128>(x));
        } else if (r.op == ReduceOp::min) {
            all = x < all ? x : all;
        } else if (r.op == ReduceOp::max) {
            all = x > all ? x : all;
        } else {
            all += x;
        }
    }
    if (r.op == ReduceOp::average) {
        if (r.postscale == 1.0) {
            return static_cast<T>(all / r.divisor);
        }
        return static_cast<T>(cut<T>(static_cast<double>(all) * r.postscale / static_cast<double>(r.divisor)));
    }
    const auto wrapped = static_cast<T>(all);
    return r.postscale == 1.0 ? wrapped : static_cast<T>(cut<T>(static_cast<double>(wrapped) * r.postscale));
}

// True and false ------------------------------------------------------------------------------------------------------

/// Counts the sources that are true.
std::uint8_t boolean_result(const Reduction& r, const std::vector<Bytes>& sources, std::size_t i) {
    std::size_t trues = 0;
    for (const Bytes& source : sources) {
        trues += source[i] != std::byte{0} ? 1U : 0U;
    }
    return (r.op == ReduceOp::max ? trues > 0 : trues == sources.size()) ? 1 : 0;
}

// Floating point ------------------------------------------------------------------------------------------------------

/// A type with at least twice as many digits as T, plus two. If an exact sum or product is rounded to this type and
/// then to T, the result equals a single rounding to T.
template <class T>
using Wider = std::conditional_t<std::is_same_v<T, float>, double, Float128>;

template <class T>
T step(ReduceOp op, T a, T b) {
    if (op == ReduceOp::sum || op == ReduceOp::average) {
        return static_cast<T>(static_cast<Wider<T>>(a) + static_cast<Wider<T>>(b));
    }
    if (op == ReduceOp::product) {
        return static_cast<T>(static_cast<Wider<T>>(a) * static_cast<Wider<T>>(b));
    }
    if (std::isnan(a) || std::isnan(b)) {
        return std::numeric_limits<T>::quiet_NaN();
    }
    const bool a_less = a < b || (a == b && std::signbit(a) && !std::signbit(b));
    return a_less == (op == ReduceOp::min) ? a : b;
}

/// Computes one element. `read(s)` returns the element of source s. Storing the result replaces NaNs by the canonical
/// NaN.
template <class T, class Read>
T float_result(const Reduction& r, std::size_t sources, Read read) {
    const T before = static_cast<T>(r.prescale);
    const T after = static_cast<T>(r.op == ReduceOp::average ? r.postscale / r.divisor : r.postscale);
    T all = 0;
    for (std::size_t s = 0; s < sources; ++s) {
        T x = read(s);
        if (before != T{1}) {
            x = step<T>(ReduceOp::product, x, before);
        }
        all = s == 0 ? x : step<T>(r.op, all, x);
    }
    return after == T{1} ? all : step<T>(ReduceOp::product, all, after);
}

struct Format {
    int fraction_bits;
    int min_exponent;  // the smallest exponent of a normal number
    int max_exponent;
    bool has_infinity = true;
};

Format format_of(DType dtype) {
    switch (dtype) {
        case DType::float16:
            return {10, -14, 15};
        case DType::float8_e4m3fn:
            return {3, -6, 8, false};
        case DType::float8_e5m2:
            return {2, -14, 15};
        default:
            return {7, -126, 127};
    }
}

int sign_bit_of(DType dtype) { return 1 << (8 * size_of(dtype) - 1); }

/// The pattern of all NaNs in float8_e4m3fn, which has no infinity.
constexpr int kNanOfE4M3 = 0x7F;

}  // namespace

double decode(DType dtype, std::uint16_t bits) {
    const Format f = format_of(dtype);
    const int units = 1 << f.fraction_bits;
    const int magnitude = bits & (sign_bit_of(dtype) - 1);
    const int exponent = magnitude / units;
    const int fraction = magnitude % units;
    const double sign = (bits & sign_bit_of(dtype)) != 0 ? -1.0 : 1.0;
    if (!f.has_infinity && magnitude == kNanOfE4M3) {
        return std::numeric_limits<double>::quiet_NaN();
    }
    if (f.has_infinity && exponent == f.max_exponent - f.min_exponent + 2) {
        return fraction != 0 ? std::numeric_limits<double>::quiet_NaN() : sign * INFINITY;
    }
    if (exponent == 0) {
        return sign * std::ldexp(fraction, f.min_exponent - f.fraction_bits);
    }
    return sign * std::ldexp(units + fraction, exponent - 1 + f.min_exponent - f.fraction_bits);
}

std::uint16_t encode(DType dtype, double value) {
    const Format f = format_of(dtype);
    const int units = 1 << f.fraction_bits;
    const int infinity = (f.max_exponent - f.min_exponent + 2) * units;
    const int nan = f.has_infinity ? infinity + units / 2 : kNanOfE4M3;
    if (std::isnan(value)) {
        return static_cast<std::uint16_t>(nan);
    }
    const int sign = std::signbit(value) ? sign_bit_of(dtype) : 0;
    const int above = f.has_infinity ? sign + infinity : nan;
    const double magnitude = std::fabs(value);
    if (magnitude == 0.0) {
        return static_cast<std::uint16_t>(sign);
    }
    const int exponent = std::isinf(value) ? f.max_exponent + 1 : std::max(std::ilogb(magnitude), f.min_exponent);
    if (exponent > f.max_exponent) {
        return static_cast<std::uint16_t>(above);
    }
    // Computes the number of units in the last place, rounded to even. If the rounding carries into the exponent, the
    // bits are still those of the right number (or of infinity, or of float8_e4m3fn's NaN).
    const int rounded = static_cast<int>(std::nearbyint(std::ldexp(magnitude, f.fraction_bits - exponent)));
    const int bits = (exponent - f.min_exponent) * units + rounded;
    return static_cast<std::uint16_t>(!f.has_infinity && bits >= nan ? nan : sign + bits);
}

Bytes expected(const Reduction& r, const std::vector<Bytes>& sources, std::size_t count) {
    Bytes result;
    result.reserve(count * size_of(r.dtype));
    for (std::size_t i = 0; i < count; ++i) {
        switch (r.dtype) {
            case DType::uint8:
                append(result, integer_result<std::uint8_t>(r, sources, i));
                break;
            case DType::int8:
                append(result, integer_result<std::int8_t>(r, sources, i));
                break;
            case DType::int16:
                append(result, integer_result<std::int16_t>(r, sources, i));
                break;
            case DType::uint16:
                append(result, integer_result<std::uint16_t>(r, sources, i));
                break;
            case DType::int32:
                append(result, integer_result<std::int32_t>(r, sources, i));
                break;
            case DType::uint32:
                append(result, integer_result<std::uint32_t>(r, sources, i));
                break;
            case DType::int64:
                append(result, integer_result<std::int64_t>(r, sources, i));
                break;
            case DType::uint64:
                append(result, integer_result<std::uint64_t>(r, sources, i));
                break;
            case DType::boolean:
                append(result, boolean_result(r, sources, i));
                break;
            case DType::float16:
            case DType::bfloat16: {
                const auto read = [&](std::size_t s) {
                    return static_cast<float>(decode(r.dtype, element<std::uint16_t>(sources[s], i)));
                };
                append(result, encode(r.dtype, static_cast<double>(float_result<float>(r, sources.size(), read))));
                break;
            }
            case DType::float8_e4m3fn:
            case DType::float8_e5m2: {
                const auto read = [&](std::size_t s) {
                    return static_cast<float>(decode(r.dtype, element<std::uint8_t>(sources[s], i)));
                };
                const auto value = static_cast<double>(float_result<float>(r, sources.size(), read));
                append(result, static_cast<std::uint8_t>(encode(r.dtype, value)));
                break;
            }
            case DType::float32: {
                const auto read = [&](std::size_t s) { return element<float>(sources[s], i); };
                const float value = float_result<float>(r, sources.size(), read);
                append(result, std::isnan(value) ? std::numeric_limits<float>::quiet_NaN() : value);
                break;
            }
            case DType::float64: {
                const auto read = [&](std::size_t s) { return element<double>(sources[s], i); };
                const double value = float_result<double>(r, sources.size(), read);
                append(result, std::isnan(value) ? std::numeric_limits<double>::quiet_NaN() : value);
                break;
            }
        }
    }
    return result;
}

Bytes expected_in_groups(const Reduction& r, const std::vector<Bytes>& sources, const GroupSizes& sizes,
                         std::size_t count) {
    if (!is_floating_point(r.dtype)) {
        // For integers and bool, the result does not depend on the order of the sources. So the levels make no
        // difference.
        return expected(r, sources, count);
    }
    const bool adds = r.op == ReduceOp::sum || r.op == ReduceOp::average;
    const bool small = (r.dtype == DType::float16 || is_float8(r.dtype)) && adds;
    const double after = r.op == ReduceOp::average ? r.postscale / r.divisor : r.postscale;
    std::vector<Bytes> partials;
    auto next = sources.begin();
    for (const std::uint32_t size : sizes) {
        partials.push_back(expected({.dtype = r.dtype,
                                     .op = adds ? ReduceOp::sum : r.op,
                                     .prescale = r.prescale,
                                     .postscale = small ? after : 1.0},
                                    {next, next + size}, count));
        next += size;
    }
    return expected({.dtype = r.dtype, .op = adds ? ReduceOp::sum : r.op, .postscale = small ? 1.0 : after}, partials,
                    count);
}

}  // namespace rueda::ops::test
