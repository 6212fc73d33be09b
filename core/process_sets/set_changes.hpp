// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The Rueda authors
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "base/status.hpp"
#include "collectives/control_plane.hpp"

/// What the ranks tell each other about the process sets that they add and remove: bytes of other processes, which are
/// checked here.
namespace rueda::core {

enum class SetChange : std::uint8_t { add = 1, remove = 2, add_among = 3 };

/// `numbers`: the ranks of a set to add, the id of one to remove.
[[nodiscard]] collectives::Bytes encode(SetChange change, std::span<const int> numbers);

/// "add_process_set([0, 2])": what a rank has asked for, from its bytes, whatever they are.
[[nodiscard]] std::string describe_set_change(std::span<const std::byte> bytes);

/// The bytes of each rank, from what an allgather of them, each with its length before it, has joined.
[[nodiscard]] Result<std::vector<collectives::Bytes>> split_by_rank(std::span<const std::byte> joined, int ranks);

/// The same of what has each rank's number before its length, and need not be of all: empty for the others.
[[nodiscard]] Result<std::vector<collectives::Bytes>> split_by_named_rank(std::span<const std::byte> joined, int ranks);

}  // namespace rueda::core
