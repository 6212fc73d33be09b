// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The Rueda authors
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/status.hpp"
#include "core/negotiation/metadata.hpp"
#include "core/negotiation/tree_messages.hpp"

/// A claim states what some ranks announced for a tensor. It contains the tensor's metadata and the numbers of these
/// ranks. The leaders merge claims on the way up the tree; the root compares them.
namespace rueda::core {

/// Converts ranks into ranges. `ranks` must be in ascending order without duplicates.
[[nodiscard]] std::vector<RankRange> ranges_of(std::span<const std::int32_t> ranks);
[[nodiscard]] std::vector<std::int32_t> ranks_of(std::span<const RankRange> ranges);
/// Returns ranges with the same ranks: in ascending order, and as few ranges as possible.
[[nodiscard]] std::vector<RankRange> united(std::vector<RankRange> ranges);
[[nodiscard]] bool contains(std::span<const RankRange> ranges, std::int32_t rank);
[[nodiscard]] std::uint64_t count_of(std::span<const RankRange> ranges);
/// Whether all ranks of `inner` are in `outer`. Both must be results of united().
[[nodiscard]] bool all_within(std::span<const RankRange> inner, std::span<const RankRange> outer);
/// Returns the ranks of `ranges` that are not in `others`. The ranges of each list must be ascending and disjoint.
[[nodiscard]] std::vector<RankRange> without(std::span<const RankRange> ranges, std::span<const RankRange> others);

/// Checks that each rank of `ranks` (a result of united()) is in exactly one claim. If there are kMostClaims claims,
/// ranks may be missing, because merge() drops claims that do not fit.
[[nodiscard]] Status check_claims(const std::vector<Claim>& claims, std::span<const RankRange> ranks);

/// Adds the ranks of `claim` to a claim with the same metadata, if the list has one; otherwise appends `claim`. If the
/// list is full, there are two cases. A claim that may be about a group of tensors (is_size_of_group()) replaces a
/// claim that is not about a group. Any other claim is dropped.
void merge(std::vector<Claim>& claims, Claim claim);

/// Returns the metadata that all ranks announced, or a Mismatch that lists which ranks announced what.
/// - There must be at least one claim.
/// - `last_called`: the metadata of the last call. A claim without metadata announces this metadata again. If there is
///   such a claim and `last_called` is empty, the result is an Internal error.
/// - `ranks`: the number of all ranks.
/// - `job_ranks`: the job's rank for each of these ranks; empty if the numbers are the same.
/// - `joined`: the ranks that need no claim, because they have joined.
/// - `call`: the number of an operation without a name, counted from 1.
[[nodiscard]] Result<Metadata> agreement_of(std::string_view name, const std::vector<Claim>& claims,
                                            const std::optional<Metadata>& last_called, std::uint32_t ranks,
                                            std::span<const std::int32_t> job_ranks = {},
                                            std::span<const RankRange> joined = {}, std::uint64_t call = 0);

/// Whether the metadata announces a group of tensors by the number of its members. Findings of checks
/// (docs/design/0009-verify.md) have the same value of `operation`, but two dimensions.
[[nodiscard]] constexpr bool is_size_of_group(const Metadata& metadata) {
    return metadata.operation == static_cast<std::uint8_t>(collectives::Operation::group) && metadata.ndim == 1;
}

/// Shortens the text to kMostTextBytes without splitting a UTF-8 character.
[[nodiscard]] std::string shortened(std::string text);

/// Returns the error that all members get if an operation needs data of ranks that have joined. `joined` lists at least
/// one such rank, by its number in the job. `call` is the number of an operation without a name, counted from 1.
[[nodiscard]] Status lacks_joined(std::string_view name, collectives::Operation operation,
                                  std::span<const std::int32_t> joined, std::uint64_t call = 0);

}  // namespace rueda::core
