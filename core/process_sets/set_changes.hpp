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

/// The messages between ranks about process sets that they add and remove. The bytes come from other processes and are
/// checked here.
namespace rueda::core {

enum class SetChange : std::uint8_t { add = 1, remove = 2, add_among = 3 };

/// `numbers` are the ranks of a set to add, or the id of one to remove.
[[nodiscard]] collectives::Bytes encode(SetChange change, std::span<const int> numbers);

/// Describes what a rank has asked for, from its bytes, which may be anything: "add_process_set([0, 2])".
[[nodiscard]] std::string describe_set_change(std::span<const std::byte> bytes);

/// Splits the result of an allgather, in which each rank's bytes have their length in front.
[[nodiscard]] Result<std::vector<collectives::Bytes>> split_by_rank(std::span<const std::byte> joined, int ranks);

/// The same for data in which each rank's number stands before its length. Ranks may be missing; their element is
/// empty.
[[nodiscard]] Result<std::vector<collectives::Bytes>> split_by_named_rank(std::span<const std::byte> joined, int ranks);

}  // namespace rueda::core
