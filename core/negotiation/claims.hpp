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

/// What groups of ranks mean with a tensor: merging it on the way up the tree, and comparing it at the root.
namespace rueda::core {

/// `ranks` ascending, each once.
[[nodiscard]] std::vector<RankRange> ranges_of(std::span<const std::int32_t> ranks);
[[nodiscard]] std::vector<std::int32_t> ranks_of(std::span<const RankRange> ranges);
/// Ascending, and as few as possible.
[[nodiscard]] std::vector<RankRange> united(std::vector<RankRange> ranges);
[[nodiscard]] bool contains(std::span<const RankRange> ranges, std::int32_t rank);
[[nodiscard]] std::uint64_t count_of(std::span<const RankRange> ranges);
/// All of `inner`, which is `united`, as `outer` is.
[[nodiscard]] bool all_within(std::span<const RankRange> inner, std::span<const RankRange> outer);
/// What of `ranges` is not in `others`; both ascending and apart.
[[nodiscard]] std::vector<RankRange> without(std::span<const RankRange> ranges, std::span<const RankRange> others);

/// Whether the claims are those of all of `ranks` (`united`), and each rank's once. Of kMostClaims claims, some ranks'
/// may be missing.
[[nodiscard]] Status check_claims(const std::vector<Claim>& claims, std::span<const RankRange> ranks);

/// Adds a claim of other ranks to those that mean the same. Of what would be more than kMostClaims the last ranks'
/// claims are dropped, but not those that may be of a group (is_size_of_group()).
void merge(std::vector<Claim>& claims, Claim claim);

/// What all ranks mean, or the Mismatch that says who means what. At least one claim; `last_called`: what those without
/// metadata mean, Internal where there are such and it is none; `ranks`: everybody; `job_ranks`: what people call
/// these ranks, by rank, where that is something else; `joined`: ranks that mean nothing, as they have joined; `call`:
/// which of the operations without a name it is, from 1 on, where it is one.
[[nodiscard]] Result<Metadata> agreement_of(std::string_view name, const std::vector<Claim>& claims,
                                            const std::optional<Metadata>& last_called, std::uint32_t ranks,
                                            std::span<const std::int32_t> job_ranks = {},
                                            std::span<const RankRange> joined = {}, std::uint64_t call = 0);

/// How many members a group has is announced like that; what is checked (docs/design/0009-verify.md) has two
/// dimensions.
[[nodiscard]] constexpr bool is_size_of_group(const Metadata& metadata) {
    return metadata.operation == static_cast<std::uint8_t>(collectives::Operation::group) && metadata.ndim == 1;
}

/// At most kMostTextBytes, whole characters of UTF-8.
[[nodiscard]] std::string shortened(std::string text);

/// The error for all members where an operation would need something of ranks that have joined. `joined`: as people
/// call them; at least one. `call`: as above.
[[nodiscard]] Status lacks_joined(std::string_view name, collectives::Operation operation,
                                  std::span<const std::int32_t> joined, std::uint64_t call = 0);

}  // namespace rueda::core
