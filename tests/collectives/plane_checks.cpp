// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The Rueda authors
#include "tests/collectives/plane_checks.hpp"

#include <algorithm>

namespace rueda::tests {
namespace {

using collectives::Bytes;
using collectives::ControlPlane;

std::size_t length_of(int rank, int round, int size, std::size_t longest) {
    return longest * static_cast<std::size_t>(rank) / static_cast<std::size_t>(std::max(1, size - 1)) +
           static_cast<std::size_t>(round);
}

std::string check_allgather(ControlPlane& plane, int round, std::size_t longest) {
    const int size = plane.size();
    const auto mine = pattern(length_of(plane.rank(), round, size, longest), plane.rank() * 31 + round);
    auto all = plane.allgather(mine);
    if (!all.is_ok()) {
        return outcome(all.status());
    }
    if (all.value().size() != static_cast<std::size_t>(size)) {
        return fmt::format("allgather: {} parts", all.value().size());
    }
    for (int r = 0; r < size; ++r) {
        if (all.value()[static_cast<std::size_t>(r)] != pattern(length_of(r, round, size, longest), r * 31 + round)) {
            return fmt::format("allgather: wrong bytes of rank {}", r);
        }
    }
    return "ok";
}

std::string check_broadcast(ControlPlane& plane, int root, std::size_t longest) {
    const auto expected = pattern(longest + static_cast<std::size_t>(root), root + 1000);
    const auto given = plane.rank() == root ? expected : pattern(3, 7);
    auto got = plane.broadcast(given, root);
    if (!got.is_ok()) {
        return outcome(got.status());
    }
    return got.value() == expected ? "ok" : fmt::format("broadcast: wrong bytes of root {}", root);
}

}  // namespace

Bytes pattern(std::size_t count, int seed) {
    Bytes bytes(count);
    unsigned state = static_cast<unsigned>(seed) * 2654435761U + 1U;
    for (std::byte& byte : bytes) {
        state = state * 1664525U + 1013904223U;
        byte = static_cast<std::byte>(state >> 24U);
    }
    return bytes;
}

std::string exercise(ControlPlane& plane, int rank, int size, std::size_t longest) {
    if (plane.rank() != rank || plane.size() != size) {
        return fmt::format("rank {} of {}, expected {} of {}", plane.rank(), plane.size(), rank, size);
    }
    for (int round = 0; round < 3; ++round) {
        if (const auto result = check_allgather(plane, round, longest); result != "ok") {
            return result;
        }
        if (const Status status = plane.barrier(); !status.is_ok()) {
            return outcome(status);
        }
    }
    for (int root = 0; root < size; ++root) {
        if (const auto result = check_broadcast(plane, root, longest); result != "ok") {
            return result;
        }
    }
    auto empty = plane.broadcast({}, 0);
    return empty.is_ok() && empty.value().empty() ? "ok" : "an empty broadcast was not empty";
}

std::string outcome(const Status& status) {
    return status.is_ok() ? "ok" : fmt::format("{}: {}", name_of(status.code()), status.message());
}

}  // namespace rueda::tests
