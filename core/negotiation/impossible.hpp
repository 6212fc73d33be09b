// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The Rueda authors
#pragma once

#include <cstdint>
#include <span>
#include <string_view>

#include "base/status.hpp"
#include "core/negotiation/metadata.hpp"

/// Operations whose metadata alone shows that no rank can do them. They are announced like all others. Only when all
/// ranks have announced one is it known whether a single rank is wrong (a mismatch), or all of them are (a refusal).
/// Either way all ranks get the error (docs/design/0001-negotiation.md). Pure.
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

/// Whether the code is one that refusal_of() returns.
[[nodiscard]] constexpr bool is_refusal(ErrorCode code) {
    return code == ErrorCode::invalid_argument || code == ErrorCode::unsupported;
}

/// The reason and what to do instead; success if the operation is possible. `ranks` are those of the process set,
/// ascending, in the numbers of the job.
[[nodiscard]] Status refusal_of(const Metadata& metadata, std::span<const std::int32_t> ranks);

/// The same for the callers: the text begins with the tensor. `call` is the number of an operation without a name,
/// counted from 1.
[[nodiscard]] Status refusal_of(std::string_view name, std::uint64_t call, const Metadata& metadata,
                                std::span<const std::int32_t> ranks);

}  // namespace rueda::core
