// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The Rueda authors
#pragma once

#include <cstdint>
#include <span>
#include <string_view>

#include "base/status.hpp"
#include "core/negotiation/metadata.hpp"

/// Operations that no rank can do, as their metadata alone shows. They are announced like all others: only when all
/// ranks have come is it known whether one of them is wrong (a mismatch), or all are (a refusal), and either way all of
/// them hear of it (docs/design/0001-negotiation.md). Pure.
namespace rueda::core {

/// Of plausible metadata.
[[nodiscard]] constexpr bool is_possible(const Metadata& metadata) {
    const auto operation = static_cast<collectives::Operation>(metadata.operation);
    const bool has_rows =
        metadata.ndim > 0 || !collectives::is_by_rows(operation) || operation == collectives::Operation::group;
    const bool has_reduction =
        !collectives::is_reduction(operation) || (ops::is_defined(reduction_of(metadata)) &&
                                                  (metadata.reduce_op != static_cast<std::uint8_t>(ReduceOp::adasum) ||
                                                   operation == collectives::Operation::allreduce));
    return has_rows && has_reduction && metadata.root_is_foreign == 0 &&
           (metadata.compression == static_cast<std::uint16_t>(Compression::none) || may_compress(metadata));
}

/// The codes that refusal_of() gives.
[[nodiscard]] constexpr bool is_refusal(ErrorCode code) {
    return code == ErrorCode::invalid_argument || code == ErrorCode::unsupported;
}

/// Why not, and what to do instead; success for what is possible. `ranks`: those of the process set, ascending, as
/// people call them.
[[nodiscard]] Status refusal_of(const Metadata& metadata, std::span<const std::int32_t> ranks);

/// The same for the callers: the text begins with the tensor. `call`: of an operation without a name, which of them it
/// is, from 1 on.
[[nodiscard]] Status refusal_of(std::string_view name, std::uint64_t call, const Metadata& metadata,
                                std::span<const std::int32_t> ranks);

}  // namespace rueda::core
