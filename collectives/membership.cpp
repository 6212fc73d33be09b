// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The Rueda authors
#include "collectives/membership.hpp"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <cstring>
#include <functional>
#include <iterator>

namespace rueda::collectives {
namespace {

/// Parses another process's list of ranks, which must be sorted and without duplicates (see check_members()). The list
/// must have exactly `count` ranks. Returns an empty list if the bytes are not such a list.
std::vector<int> parse_members(std::span<const std::byte> bytes, std::size_t count) {
    std::vector<int> list(count);
    if (bytes.size() != count * sizeof(int)) {
        return {};
    }
    std::memcpy(list.data(), bytes.data(), bytes.size());
    const bool ascends = std::adjacent_find(list.begin(), list.end(), std::greater_equal<>()) == list.end();
    return ascends && list.front() >= 0 ? list : std::vector<int>();
}

}  // namespace

Result<std::vector<int>> check_members(std::vector<int> given, int own, int size) {
    if (given.empty()) {
        return failure(ErrorCode::invalid_argument, "init: the list of ranks is empty; expected some of 0 to {}",
                       size - 1);
    }
    std::sort(given.begin(), given.end());
    const int wrong = given.front() < 0 ? given.front() : given.back();
    if (wrong < 0 || wrong >= size) {
        return failure(ErrorCode::invalid_argument, "init: there is no rank {}; {} processes were launched, 0 to {}",
                       wrong, size, size - 1);
    }
    const auto twice = std::adjacent_find(given.begin(), given.end());
    if (twice != given.end()) {
        return failure(ErrorCode::invalid_argument, "init: rank {} is in the list twice; expected each once", *twice);
    }
    if (!std::binary_search(given.begin(), given.end(), own)) {
        return failure(ErrorCode::invalid_argument,
                       "init: this process is rank {} of those that were launched, and the list is {}: call init only "
                       "in the members of the list",
                       own, describe_ranks(given));
    }
    return given;
}

int position_of(std::span<const int> members, int own) {
    return static_cast<int>(std::distance(members.begin(), std::lower_bound(members.begin(), members.end(), own)));
}

Status agree_on_members(ControlPlane& plane, std::span<const int> members) {
    auto gathered = plane.allgather(std::as_bytes(members));
    RUEDA_RETURN_IF_FAILED(gathered.status());
    std::vector<int> first;
    for (std::size_t r = 0; r < gathered.value().size(); ++r) {
        const Bytes& bytes = gathered.value()[r];
        const std::vector<int> list = parse_members(bytes, members.size());
        if (list.empty()) {
            return failure(ErrorCode::internal,
                           "init: rank {} of the new job sent {} bytes that are not a list of {} ranks; expected as "
                           "many numbers of {} bytes, ascending from 0 on: do all ranks run the same build of Rueda?",
                           r, bytes.size(), members.size(), sizeof(int));
        }
        if (r == 0) {
            first = list;
        } else if (list != first) {
            return lists_differ(first.front(), describe_ranks(first), list[r], describe_ranks(list));
        }
    }
    return {};
}

Status lists_differ(int rank, std::string_view list, int other, std::string_view others_list) {
    return failure(ErrorCode::mismatch,
                   "init: the ranks of the new job were given different lists: rank {}: {}; rank {}: {}; give the same "
                   "list to all of its members",
                   rank, list, other, others_list);
}

std::string describe_ranks(std::span<const int> ranks) {
    constexpr std::size_t kMost = 32;
    const auto shown = ranks.first(std::min(ranks.size(), kMost));
    return fmt::format("{}{}", fmt::join(shown.begin(), shown.end(), ", "), ranks.size() > kMost ? ", …" : "");
}

}  // namespace rueda::collectives
