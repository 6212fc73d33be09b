// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The Rueda authors
#include "core/setup/first_sets.hpp"

#include <algorithm>
#include <limits>
#include <map>
#include <span>
#include <string>
#include <utility>

#include "base/text.hpp"
#include "collectives/membership.hpp"
#include "collectives/transport.hpp"
#include "collectives/wire.hpp"

namespace rueda::core {
namespace {

using collectives::Bytes;

/// The number of sets that an error names; further sets are shown as "…", to keep the line readable.
constexpr std::size_t kMostSetsNamed = 8;

/// The largest number (id) that the first set may get. With a larger number, too few numbers might be left for the
/// job's other sets.
constexpr std::int32_t kMostFirstId =
    std::numeric_limits<std::int32_t>::max() - static_cast<std::int32_t>(collectives::Transport::kMostSets);

Bytes encoded(const FirstSets& mine) {
    collectives::WireWriter writer;
    writer.number(mine.next_id);
    for (std::vector<int> ranks : mine.ranks) {
        std::sort(ranks.begin(), ranks.end());
        writer.number(static_cast<std::uint32_t>(ranks.size()));
        for (const int rank : ranks) {
            writer.number(std::int32_t{rank});
        }
    }
    return std::move(writer).take();
}

/// Describes a rank's sets, for example "[0, 2], [1]". The bytes come from that rank, and may be invalid.
std::string describe(std::span<const std::byte> bytes) {
    if (bytes.empty()) {
        return "none";
    }
    collectives::WireReader reader(bytes);
    std::string text;
    for (std::size_t set = 0; reader.intact() && !reader.complete(); ++set) {
        std::vector<int> ranks;
        const auto count = reader.number<std::uint32_t>();
        for (std::uint32_t i = 0; i < count && reader.intact(); ++i) {
            ranks.push_back(reader.number<std::int32_t>());
        }
        if (reader.intact() && set < kMostSetsNamed) {
            text += fmt::format("{}[{}]", text.empty() ? "" : ", ", collectives::describe_ranks(ranks));
        } else if (set == kMostSetsNamed) {
            text += ", …";
        }
    }
    return reader.intact() ? text : "something that no working rank asks for";
}

}  // namespace

Result<std::int32_t> agree_on_first_sets(collectives::ControlPlane& control_plane, const FirstSets& mine) {
    const Result<std::vector<Bytes>> all = control_plane.allgather(encoded(mine));
    RUEDA_RETURN_IF_FAILED(all.status());
    std::int32_t first = 1;
    std::map<Bytes, std::vector<std::int32_t>> ranks_of;
    for (std::size_t rank = 0; rank < all.value().size(); ++rank) {
        const Bytes& bytes = all.value()[rank];
        collectives::WireReader reader(bytes);
        const auto next = reader.number<std::int32_t>();
        if (!reader.intact() || next < 1 || next > kMostFirstId) {
            return failure(ErrorCode::internal,
                           "rank {} announced {} as the number of its next process set; expected 1 to {}", rank, next,
                           kMostFirstId);
        }
        first = std::max(first, next);
        ranks_of[Bytes(bytes.begin() + sizeof next, bytes.end())].push_back(static_cast<std::int32_t>(rank));
    }
    if (ranks_of.size() == 1) {
        return first;
    }
    std::map<std::int32_t, std::string> by_first_rank;
    for (const auto& [bytes, ranks] : ranks_of) {
        by_first_rank[ranks.front()] = fmt::format("{}: {}", base::format_ranks(ranks), describe(bytes));
    }
    std::string who;
    for (const auto& [rank, what] : by_first_rank) {
        who += (who.empty() ? "" : "; ") + what;
    }
    return failure(ErrorCode::mismatch, "init: the ranks give different process sets: {}; expected the same on all",
                   who);
}

}  // namespace rueda::core
