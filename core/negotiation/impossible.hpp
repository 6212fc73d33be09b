// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The Rueda authors
#pragma once

#include <cstdint>
#include <span>
#include <string_view>

#include "base/status.hpp"
#include "core/negotiation/metadata.hpp"

/// Operations that no rank can do. The metadata alone shows this. They are announced like all other operations. Only
/// after all ranks have announced such an operation is it clear whether a single rank is wrong (a mismatch) or all
/// ranks are (a refusal). Either way all ranks get the error (docs/design/0001-negotiation.md). Pure.
namespace rueda::core {

/// `metadata` must be plausible.
[[nodiscard]] constexpr bool is_possible(const Metadata& metadata) {
    const auto operation = static_cast<collectives::Operation>(metadata.operation);
    const bool has_rows =
        metadata.ndim > 0 || !collectives::has_variable_rows(operation) || operation == collectives::Operation::group;
    const bool has_reduction =
        !collectives::is_reduction(operation) || (ops::is_defined(reduction_of(metadata)) &&
                                                  (metadata.reduce_op != static_cast<std::uint8_t>(ReduceOp::adasum) ||
                                                   operation == collectives::Operation::allreduce));
    return has_rows && has_reduction && metadata.root_is_foreign == 0 &&
           (metadata.compression == static_cast<std::uint16_t>(Compression::none) || may_compress(metadata));
}

/// Whether refusal_of() can return this code.
[[nodiscard]] constexpr bool is_refusal(ErrorCode code) {
    return code == ErrorCode::invalid_argument || code == ErrorCode::unsupported;
}

/// Returns the reason, and what to do instead; success if the operation is possible. `ranks` are the ranks of the
/// process set, in ascending order and in the numbers of the job.
[[nodiscard]] Status refusal_of(const Metadata& metadata, std::span<const std::int32_t> ranks);

/// Like refusal_of(), but the text is for the callers: it begins with the tensor. `call` is the number of an operation
/// without a name, counted from 1.
[[nodiscard]] Status refusal_of(std::string_view name, std::uint64_t call, const Metadata& metadata,
                                std::span<const std::int32_t> ranks);

}  // namespace rueda::core
