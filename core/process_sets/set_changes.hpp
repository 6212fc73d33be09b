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

/// Encodes and decodes the messages in which ranks tell each other which process sets they add or remove. The bytes
/// come from other processes, so the functions check them.
namespace rueda::core {

enum class SetChange : std::uint8_t { add = 1, remove = 2, add_among = 3 };

/// `numbers` contains the ranks of the set to add, or the id of the set to remove.
[[nodiscard]] collectives::Bytes encode(SetChange change, std::span<const int> numbers);

/// Describes what a rank has requested, for example "add_process_set([0, 2])". The bytes come from that rank, and may
/// be invalid.
[[nodiscard]] std::string describe_set_change(std::span<const std::byte> bytes);

/// Splits the result of an allgather into the ranks' bytes. In `joined`, the length of a rank's bytes comes before the
/// bytes.
[[nodiscard]] Result<std::vector<collectives::Bytes>> split_by_rank(std::span<const std::byte> joined, int ranks);

/// Like split_by_rank(), but in `joined` a rank's number comes before the length. Ranks may be missing. Their elements
/// in the result are empty.
[[nodiscard]] Result<std::vector<collectives::Bytes>> split_by_named_rank(std::span<const std::byte> joined, int ranks);

}  // namespace rueda::core
