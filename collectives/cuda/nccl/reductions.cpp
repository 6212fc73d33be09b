// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The Rueda authors
#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <string>

#include "collectives/cuda/nccl/calls.hpp"
#include "ops/reduce.hpp"

namespace rueda::collectives::cuda {
namespace {

/// The largest relative error of a factor that is rounded to the tensors' type. bfloat16 rounds by up to 0.002. Larger
/// errors occur only for factors near the smallest number of a type.
constexpr double kMostFactorError = 0.01;

/// The format of a floating-point type.
struct FloatFormat {
    int mantissa_bits;  ///< the stored bits of the mantissa, without its leading 1
    int exponent_bits;
};

std::optional<FloatFormat> format_of(DType dtype) {
    switch (dtype) {
        case DType::float16:
            return FloatFormat{10, 5};
        case DType::bfloat16:
            return FloatFormat{7, 8};
        case DType::float32:
            return FloatFormat{23, 8};
        case DType::float64:
            return FloatFormat{52, 11};
        default:
            return std::nullopt;
    }
}

std::optional<NcclType> nccl_type_of(DType dtype) {
    switch (dtype) {
        case DType::boolean:  // NCCL has no bool
        case DType::uint8:
            return kNcclUint8;
        case DType::int8:
            return kNcclInt8;
        case DType::int32:
            return kNcclInt32;
        case DType::uint32:
            return kNcclUint32;
        case DType::int64:
            return kNcclInt64;
        case DType::uint64:
            return kNcclUint64;
        case DType::float16:
            return kNcclFloat16;
        case DType::bfloat16:
            return kNcclBfloat16;
        case DType::float32:
            return kNcclFloat32;
        case DType::float64:
            return kNcclFloat64;
        case DType::int16:
        case DType::uint16:
        case DType::float8_e4m3fn:  // plan_reduction() refuses them
        case DType::float8_e5m2:
            return std::nullopt;
    }
    return std::nullopt;
}

struct RoundedFactor {
    std::uint64_t bits = 0;
    double value = 0;
};

/// Rounds a finite value to a format in a single step: to nearest, and ties to even.
RoundedFactor round_to(double value, FloatFormat format) {
    const int bias = (1 << (format.exponent_bits - 1)) - 1;
    const std::uint64_t sign =
        std::signbit(value) ? std::uint64_t{1} << (format.mantissa_bits + format.exponent_bits) : 0;
    if (value == 0.0) {
        return {sign, value};
    }
    int exponent = 0;
    std::frexp(value, &exponent);  // |value| is in [2^(exponent − 1), 2^exponent)
    const int lowest = std::max(exponent - 1, 1 - bias) - format.mantissa_bits;  // the exponent of the mantissa's last
                                                                                 // bit
    const double steps = std::nearbyint(std::ldexp(std::fabs(value), -lowest));
    const double rounded = std::ldexp(steps, lowest);
    // For float64, the limit is infinite, so no finite value reaches it.
    if (rounded >= std::ldexp(1.0, bias) * 2) {
        return {sign | (((std::uint64_t{1} << format.exponent_bits) - 1) << format.mantissa_bits),
                std::copysign(INFINITY, value)};
    }
    // The format does not store the leading 1 bit of the mantissa. For a normal number, `steps` includes this bit, so
    // the addition below increases the exponent by 1. The `- 1` in `field` makes up for this. If rounding carries into
    // the next exponent, the addition increases the exponent once more, which is right.
    const auto field = static_cast<std::uint64_t>(std::max(0, lowest + format.mantissa_bits + bias - 1));
    return {sign | ((field << format.mantissa_bits) + static_cast<std::uint64_t>(steps)),
            std::copysign(rounded, value)};
}

Status cannot(const Segment& segment, const std::string& why) {
    return failure(ErrorCode::unsupported, "NCCL cannot reduce {} tensors on GPUs with the operation {}{}",
                   name_of(segment.dtype), name_of(segment.reduce_op), why);
}

/// Plans a sum whose inputs are multiplied by `factor`.
Result<NcclReductionPlan> plan_factor(const Segment& segment, NcclType type, double factor) {
    const FloatFormat format = *format_of(segment.dtype);
    if (!std::isfinite(factor)) {
        return cannot(segment, fmt::format(" and the factor {}: it is not finite", factor));
    }
    const RoundedFactor rounded = round_to(factor, format);
    if (!(std::fabs(rounded.value - factor) <= kMostFactorError * std::fabs(factor))) {
        return cannot(segment, fmt::format(" and the factor {}: it becomes {} in this type; use float32, or factors "
                                           "that are nearer to 1",
                                           factor, rounded.value));
    }
    return NcclReductionPlan{type, kNcclSum, NcclFactor{type, rounded.bits}};
}

Result<NcclReductionPlan> plan_sum(const Segment& segment, NcclType type, std::uint32_t members) {
    const bool is_average = segment.reduce_op == ReduceOp::average;
    const std::uint32_t divisor = members - segment.uncounted;
    const double scale = segment.prescale * segment.postscale;
    const bool has_scale = segment.prescale != 1.0 || segment.postscale != 1.0;
    if (segment.uncounted >= members) {
        return failure(ErrorCode::internal, "an average over {} of {} members", segment.uncounted, members);
    }
    if (format_of(segment.dtype)) {
        if (is_average && !has_scale && segment.uncounted == 0) {
            return NcclReductionPlan{type, kNcclAverage, {}};
        }
        const double factor = is_average ? scale / divisor : scale;
        return factor == 1.0 ? NcclReductionPlan{type, kNcclSum, {}} : plan_factor(segment, type, factor);
    }
    if (has_scale) {
        return cannot(segment,
                      " and factors (prescale, postscale): it multiplies integers only by integers; convert "
                      "the tensor to float32 or float64, or leave out the factors");
    }
    if (!is_average) {
        return NcclReductionPlan{type, kNcclSum, {}};
    }
    if (segment.uncounted != 0) {
        return cannot(segment,
                      " while some ranks have called join(): it divides integers by the number of all ranks "
                      "only; use the operation sum, or float32");
    }
    return NcclReductionPlan{type, kNcclAverage, {}};
}

}  // namespace

Result<NcclReductionPlan> plan_reduction(const Segment& segment, std::uint32_t members) {
    if (ops::is_float8(segment.dtype)) {
        return failure(ErrorCode::unsupported,
                       "Rueda does not reduce {} tensors with NCCL, which rounds to 8 bits at every addition; use "
                       "RUEDA_GPU_PATH=auto, or convert the tensor to bfloat16",
                       name_of(segment.dtype));
    }
    const auto type = nccl_type_of(segment.dtype);
    if (!type) {
        return cannot(segment, ": it has no 16-bit integers; convert the tensor to int32");
    }
    const bool is_bool = segment.dtype == DType::boolean;
    const bool is_sum = segment.reduce_op == ReduceOp::sum || segment.reduce_op == ReduceOp::average;
    if (segment.reduce_op == ReduceOp::adasum || (is_bool && is_sum)) {
        return cannot(segment, "; move the tensor to the CPU for this operation");
    }
    if (is_sum) {
        return plan_sum(segment, *type, members);
    }
    if (segment.prescale != 1.0 || segment.postscale != 1.0) {
        return cannot(segment,
                      " and factors (prescale, postscale); multiply the tensor before and after the operation");
    }
    const bool is_product = segment.reduce_op == ReduceOp::product;
    if (is_product && !is_bool) {
        return NcclReductionPlan{*type, kNcclProduct, {}};
    }
    // A bool is 0 or 1, so the product of bools is their minimum.
    return NcclReductionPlan{*type, segment.reduce_op == ReduceOp::max ? kNcclMax : kNcclMin, {}};
}

}  // namespace rueda::collectives::cuda
