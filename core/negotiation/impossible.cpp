// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The Rueda authors
#include "core/negotiation/impossible.hpp"

#include <fmt/ranges.h>

namespace rueda::core {
namespace {

using collectives::Operation;

Status foreign_root(const Metadata& metadata, std::span<const std::int32_t> ranks) {
    return metadata.process_set == 0
               ? failure(ErrorCode::invalid_argument, "the root rank is {}; expected 0 to {}", metadata.root,
                         ranks.back())
               : failure(ErrorCode::invalid_argument,
                         "the root rank is {}, which is not in process set {}; expected one of {}", metadata.root,
                         metadata.process_set, fmt::join(ranks, ", "));
}

const char* gathers_or_splits(Operation operation) {
    switch (operation) {
        case Operation::gather:
            return "a gather joins";
        case Operation::scatter:
            return "a scatter splits";
        case Operation::reducescatter:
            return "a reducescatter splits";
        case Operation::alltoall:
            return "an alltoall splits";
        default:
            return "an allgather joins";
    }
}

/// Adasum is not defined for integers and bool. Scale factors are not defined for bool. Sum and average are not defined
/// for bool either: the caller must choose between a logical AND and a logical OR.
Status undefined_reduction(const ops::Reduction& reduction) {
    if (reduction.op == ReduceOp::adasum) {
        return failure(ErrorCode::unsupported,
                       "there is no adasum of {}; use float16, bfloat16, float32 or float64, or sum or average",
                       name_of(reduction.dtype));
    }
    if (reduction.op == ReduceOp::sum || reduction.op == ReduceOp::average) {
        return failure(ErrorCode::unsupported,
                       "there is no {} of {}; use max for or (true where any rank has true), min for and (true where "
                       "every rank has), or an integer dtype to count",
                       name_of(reduction.op), name_of(reduction.dtype));
    }
    return failure(ErrorCode::unsupported,
                   "{} has no scale factors, and this {} has the prescale factor {} and the postscale factor {}; leave "
                   "both at 1, or use another dtype",
                   name_of(reduction.dtype), name_of(reduction.op), reduction.prescale, reduction.postscale);
}

Status no_compression(const Metadata& metadata) {
    const auto operation = static_cast<Operation>(metadata.operation);
    if (operation != Operation::allreduce) {
        return failure(ErrorCode::unsupported, "there is no compression for {}, only for allreduce; leave it out",
                       collectives::name_of(operation));
    }
    return failure(ErrorCode::unsupported,
                   "there is no compression for an allreduce ({}) of {}, only for float32 and float64 and other "
                   "reductions than adasum; leave it out, or set RUEDA_COMPRESSION, which leaves such tensors as they "
                   "are",
                   name_of(static_cast<ReduceOp>(metadata.reduce_op)), name_of(static_cast<DType>(metadata.dtype)));
}

}  // namespace

Status refusal_of(const Metadata& metadata, std::span<const std::int32_t> ranks) {
    const auto operation = static_cast<Operation>(metadata.operation);
    if (is_possible(metadata)) {
        return {};
    }
    if (metadata.root_is_foreign != 0) {
        return foreign_root(metadata, ranks);
    }
    if (collectives::has_variable_rows(operation) && metadata.ndim == 0) {
        return failure(ErrorCode::invalid_argument,
                       "{} tensors along their first dimension, and the input is a scalar (0 dimensions); give it the "
                       "shape [1]",
                       gathers_or_splits(operation));
    }
    const ops::Reduction reduction = reduction_of(metadata);
    if (collectives::is_reduction(operation) && operation != Operation::allreduce && reduction.op == ReduceOp::adasum) {
        return failure(ErrorCode::unsupported,
                       "there is no {} by adasum, which needs whole tensors; use an allreduce, or average, sum, min, "
                       "max or product",
                       collectives::name_of(operation));
    }
    if (collectives::is_reduction(operation) && !ops::is_defined(reduction)) {
        return undefined_reduction(reduction);
    }
    return no_compression(metadata);
}

Status refusal_of(std::string_view name, std::uint64_t call, const Metadata& metadata,
                  std::span<const std::int32_t> ranks) {
    const Status refusal = refusal_of(metadata, ranks);
    if (refusal.is_ok()) {
        return {};
    }
    return call != 0 ? failure(refusal.code(), "{}: {}", describe_unnamed(call), refusal.message())
                     : failure(refusal.code(), "tensor '{}': {}", name, refusal.message());
}

}  // namespace rueda::core
