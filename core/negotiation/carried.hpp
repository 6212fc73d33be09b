// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The Rueda authors
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <vector>

#include "collectives/hierarchical/partial_reduction.hpp"
#include "core/negotiation/metadata.hpp"

/// Small allreduces between hosts whose data the messages of the leaders carry (docs/design/0002-several-hosts.md,
/// "Carried inputs"). The functions have no state. Threads: any.
namespace rueda::core {

/// The largest input that an announcement between hosts carries, in bytes. Larger inputs are faster as messages of
/// their own, because each byte in a message between leaders is authenticated, and passes through the root.
inline constexpr std::size_t kMostCarriedBytes = 2048;

/// The partial result of one host, or the result of all hosts.
using CarriedBytes = std::vector<std::byte>;

/// Returns how the inputs of an operation of a set of `ranks` ranks are combined in two levels, first within each host
/// and then between the hosts. Returns nothing if announcements do not carry the inputs of such an operation.
[[nodiscard]] std::optional<collectives::PartialReduction> carried_reduction(const Metadata& metadata,
                                                                             std::uint32_t ranks);

/// Combines the partial results of all hosts, in the order in which recursive doubling combines them
/// (collectives/hierarchical). So the bits of the result do not depend on how the data travels. `of_hosts` holds at
/// least two partial results, which have the same size.
[[nodiscard]] CarriedBytes combine_carried(const collectives::PartialReduction& reduction,
                                           std::vector<CarriedBytes> of_hosts);

}  // namespace rueda::core
