// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The Rueda authors
#include "core/negotiation/claims.hpp"

#include <algorithm>
#include <iterator>
#include <utility>

#include "base/text.hpp"

namespace rueda::core {
namespace {

bool same_meaning(const Claim& a, const Claim& b) {
    return a.metadata.has_value() == b.metadata.has_value() && (!a.metadata || agree(*a.metadata, *b.metadata));
}

/// Whether the claim may be about a group of tensors. Such claims are never dropped: if the root refuses a group, it
/// must also refuse the group's members, and it learns the members only from these claims. A claim without metadata
/// repeats the metadata of the last call. It may be about a group too, because only the root knows the last call.
bool may_be_of_group(const Claim& claim) { return !claim.metadata || is_size_of_group(*claim.metadata); }

std::vector<RankRange> ranges_of(const std::vector<Claim>& claims) {
    std::vector<RankRange> ranges;
    for (const Claim& claim : claims) {
        ranges.insert(ranges.end(), claim.ranks.begin(), claim.ranks.end());
    }
    return ranges;
}

/// Returns a text about the ranks that have no claim because their claims were dropped, for example "; ranks 70, 71:
/// other values".
std::string unlisted_ranks(const std::vector<Claim>& claims, std::uint32_t ranks,
                           std::span<const std::int32_t> job_ranks, std::span<const RankRange> joined) {
    std::vector<RankRange> listed = ranges_of(claims);
    listed.insert(listed.end(), joined.begin(), joined.end());
    listed = united(std::move(listed));
    std::vector<std::int32_t> unlisted;
    for (std::int32_t rank = 0; static_cast<std::uint32_t>(rank) < ranks; ++rank) {
        if (!contains(listed, rank)) {
            unlisted.push_back(rank_in_job(rank, job_ranks));
        }
    }
    return unlisted.empty() ? std::string() : fmt::format("; {}: other values", base::format_ranks(unlisted));
}

}  // namespace

std::vector<RankRange> ranges_of(std::span<const std::int32_t> ranks) {
    std::vector<RankRange> ranges;
    for (const std::int32_t rank : ranks) {
        if (!ranges.empty() && ranges.back().last + 1 == rank) {
            ranges.back().last = rank;
        } else {
            ranges.push_back({rank, rank});
        }
    }
    return ranges;
}

std::vector<std::int32_t> ranks_of(std::span<const RankRange> ranges) {
    std::vector<std::int32_t> ranks;
    for (const RankRange& range : ranges) {
        for (std::int32_t rank = range.first; rank <= range.last; ++rank) {
            ranks.push_back(rank);
        }
    }
    return ranks;
}

std::vector<RankRange> united(std::vector<RankRange> ranges) {
    std::sort(ranges.begin(), ranges.end(), [](const RankRange& a, const RankRange& b) { return a.first < b.first; });
    std::vector<RankRange> result;
    for (const RankRange& range : ranges) {
        if (!result.empty() && range.first <= result.back().last + 1) {
            result.back().last = std::max(result.back().last, range.last);
        } else {
            result.push_back(range);
        }
    }
    return result;
}

bool contains(std::span<const RankRange> ranges, std::int32_t rank) {
    const auto behind =
        std::upper_bound(ranges.begin(), ranges.end(), rank,
                         [](std::int32_t value, const RankRange& range) { return value < range.first; });
    return behind != ranges.begin() && std::prev(behind)->last >= rank;
}

std::uint64_t count_of(std::span<const RankRange> ranges) {
    std::uint64_t count = 0;
    for (const RankRange& range : ranges) {
        count += static_cast<std::uint64_t>(std::int64_t{range.last} - range.first + 1);
    }
    return count;
}

bool all_within(std::span<const RankRange> inner, std::span<const RankRange> outer) {
    return std::all_of(inner.begin(), inner.end(), [outer](const RankRange& range) {
        return std::any_of(outer.begin(), outer.end(), [range](const RankRange& around) {
            return around.first <= range.first && range.last <= around.last;
        });
    });
}

std::vector<RankRange> without(std::span<const RankRange> ranges, std::span<const RankRange> others) {
    std::vector<RankRange> left;
    auto other = others.begin();
    for (RankRange range : ranges) {
        while (other != others.end() && other->last < range.first) {
            ++other;
        }
        for (auto cut = other; cut != others.end() && cut->first <= range.last; ++cut) {
            if (cut->first > range.first) {
                left.push_back({range.first, cut->first - 1});
            }
            range.first = cut->last + 1;
        }
        if (range.first <= range.last) {
            left.push_back(range);
        }
    }
    return left;
}

Status check_claims(const std::vector<Claim>& claims, std::span<const RankRange> ranks) {
    const std::vector<RankRange> all = ranges_of(claims);
    const std::vector<RankRange> together = united(all);
    const bool each_once = count_of(all) == count_of(together);
    const bool complete = std::equal(together.begin(), together.end(), ranks.begin(), ranks.end()) ||
                          (claims.size() >= kMostClaims && all_within(together, ranks));
    if (each_once && complete) {
        return {};
    }
    return failure(ErrorCode::internal, "claims of {}{}, and {} are meant", base::format_ranks(ranks_of(together)),
                   each_once ? "" : ", some of them twice", base::format_ranks(ranks_of(ranks)));
}

void merge(std::vector<Claim>& claims, Claim claim) {
    const auto same =
        std::find_if(claims.begin(), claims.end(), [&claim](const Claim& other) { return same_meaning(other, claim); });
    if (same != claims.end()) {
        same->ranks.insert(same->ranks.end(), claim.ranks.begin(), claim.ranks.end());
        same->ranks = united(std::move(same->ranks));
        return;
    }
    claim.ranks = united(std::move(claim.ranks));
    if (claims.size() < kMostClaims) {
        claims.push_back(std::move(claim));
    } else if (may_be_of_group(claim)) {
        // At most two different claims can be about a group. If a third one comes, a leader is faulty.
        const auto other = std::find_if_not(claims.rbegin(), claims.rend(), may_be_of_group);
        if (other != claims.rend()) {
            *other = std::move(claim);
        }
    }
}

Result<Metadata> agreement_of(std::string_view name, const std::vector<Claim>& claims,
                              const std::optional<Metadata>& last_called, std::uint32_t ranks,
                              std::span<const std::int32_t> job_ranks, std::span<const RankRange> joined,
                              std::uint64_t call) {
    for (const Claim& claim : claims) {
        if (!claim.metadata && !last_called) {
            return failure(ErrorCode::internal, "{} announced tensor {} as it was called before, and it never was",
                           base::format_ranks(ranks_of(claim.ranks)), base::quote(name));
        }
    }
    const auto meaning_of = [&last_called](const Claim& claim) -> const Metadata& {
        return claim.metadata ? *claim.metadata : *last_called;
    };
    const Metadata& first = meaning_of(claims.front());
    if (std::all_of(claims.begin(), claims.end(),
                    [&](const Claim& claim) { return agree(meaning_of(claim), first); })) {
        return first;
    }
    std::vector<MetadataOfRanks> groups;
    for (const Claim& claim : claims) {
        groups.push_back({meaning_of(claim), ranks_of(claim.ranks)});
    }
    const Status mismatch = call != 0 ? mismatch_of_unnamed(call, std::move(groups), job_ranks)
                                      : mismatch_of(name, std::move(groups), job_ranks);
    return Status(mismatch.code(), shortened(mismatch.message() + unlisted_ranks(claims, ranks, job_ranks, joined)));
}

std::string shortened(std::string text) {
    constexpr std::string_view kMore = "…";
    if (text.size() <= kMostTextBytes) {
        return text;
    }
    std::size_t length = kMostTextBytes - kMore.size();
    while (length > 0 && (static_cast<unsigned char>(text[length]) & 0xc0) == 0x80) {
        --length;
    }
    return text.substr(0, length) + std::string(kMore);
}

Status lacks_joined(std::string_view name, collectives::Operation operation, std::span<const std::int32_t> joined,
                    std::uint64_t call) {
    const std::string tensor = call != 0 ? describe_unnamed(call) : fmt::format("tensor '{}'", name);
    const std::string text = fmt::format(
        "{}: this {} needs every rank, and {} {} in join(): do it before a rank joins, or after all have joined; while "
        "ranks are in join(), only allreduce and barrier are possible",
        tensor, collectives::name_of(operation), base::format_ranks({joined.begin(), joined.end()}),
        joined.size() == 1 ? "is" : "are");
    return {ErrorCode::invalid_argument, shortened(text)};
}

}  // namespace rueda::core
