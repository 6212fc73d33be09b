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

/// What groups of ranks mean by a tensor: claims are merged on the way up the tree, and compared at the root.
namespace rueda::core {

/// `ranks` must be in ascending order without duplicates.
[[nodiscard]] std::vector<RankRange> ranges_of(std::span<const std::int32_t> ranks);
[[nodiscard]] std::vector<std::int32_t> ranks_of(std::span<const RankRange> ranges);
/// Returns the same ranks as the smallest number of ascending ranges.
[[nodiscard]] std::vector<RankRange> united(std::vector<RankRange> ranges);
[[nodiscard]] bool contains(std::span<const RankRange> ranges, std::int32_t rank);
[[nodiscard]] std::uint64_t count_of(std::span<const RankRange> ranges);
/// Whether all ranks of `inner` are in `outer`. Both must be results of united().
[[nodiscard]] bool all_within(std::span<const RankRange> inner, std::span<const RankRange> outer);
/// Returns the ranks of `ranges` that are not in `others`. In both lists, the ranges must be ascending and disjoint.
[[nodiscard]] std::vector<RankRange> without(std::span<const RankRange> ranges, std::span<const RankRange> others);

/// Checks that each of `ranks` (a result of united()) is in exactly one claim. If there are kMostClaims claims, ranks
/// without a claim are allowed.
[[nodiscard]] Status check_claims(const std::vector<Claim>& claims, std::span<const RankRange> ranks);

/// Merges the claim into an equal claim, if there is one. If there would be more than kMostClaims claims, the claims of
/// the last ranks are dropped, except claims that may be about a group (is_size_of_group()).
void merge(std::vector<Claim>& claims, Claim claim);

/// Returns what all ranks mean, or the Mismatch that lists which ranks mean what.
/// - There must be at least one claim.
/// - `last_called`: what claims without metadata mean. If it is empty and there are such claims, the error is Internal.
/// - `ranks`: the number of all ranks.
/// - `job_ranks`: the job's rank for each of these ranks; empty if they are the same.
/// - `joined`: ranks without a claim, because they have joined.
/// - `call`: for an operation without a name, its number, counted from 1.
[[nodiscard]] Result<Metadata> agreement_of(std::string_view name, const std::vector<Claim>& claims,
                                            const std::optional<Metadata>& last_called, std::uint32_t ranks,
                                            std::span<const std::int32_t> job_ranks = {},
                                            std::span<const RankRange> joined = {}, std::uint64_t call = 0);

/// Whether the metadata has the form that announces a group's number of members. The findings of checks
/// (docs/design/0009-verify.md) have two dimensions, so they have another form.
[[nodiscard]] constexpr bool is_size_of_group(const Metadata& metadata) {
    return metadata.operation == static_cast<std::uint8_t>(collectives::Operation::group) && metadata.ndim == 1;
}

/// Shortens the text to at most kMostTextBytes without splitting a UTF-8 character.
[[nodiscard]] std::string shortened(std::string text);

/// Returns the error for all members if an operation needs something of ranks that have joined. `joined` holds at least
/// one of these ranks, in the numbers of the job. For `call` see agreement_of().
[[nodiscard]] Status lacks_joined(std::string_view name, collectives::Operation operation,
                                  std::span<const std::int32_t> joined, std::uint64_t call = 0);

}  // namespace rueda::core
