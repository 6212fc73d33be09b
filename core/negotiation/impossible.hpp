// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The Rueda authors
#pragma once

#include <cstdint>
#include <span>
#include <string_view>

#include "base/status.hpp"
#include "core/negotiation/metadata.hpp"

/// Uses only the metadata to find operations that no rank can do. A rank announces such an operation like any other,
/// and then the error depends on the other ranks. If all ranks have the same metadata, all ranks get a refusal: the
/// error that this file makes. Otherwise all ranks get the error of a mismatch. See docs/design/0001-negotiation.md.
/// Pure functions.
namespace rueda::core {

/// Whether ranks can do this operation. `metadata` must have passed is_plausible().
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

/// Returns success if the operation is possible. Otherwise the error says why the operation is impossible, and what to
/// do instead. `ranks` are the job's ranks in the process set, in ascending order.
[[nodiscard]] Status refusal_of(const Metadata& metadata, std::span<const std::int32_t> ranks);

/// Like refusal_of(metadata, ranks), but the message begins with the tensor's name. For an operation without a name,
/// `call` is its number, counted from 1; otherwise `call` is 0.
[[nodiscard]] Status refusal_of(std::string_view name, std::uint64_t call, const Metadata& metadata,
                                std::span<const std::int32_t> ranks);

}  // namespace rueda::core
