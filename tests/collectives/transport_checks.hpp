// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The Rueda authors
#pragma once

#include <string>

#include "collectives/transport.hpp"

namespace rueda::tests {

/// Tests the message until it was sent or has arrived, for at most a minute. Returns its number of bytes.
[[nodiscard]] Result<std::size_t> finish(collectives::Transport& transport, collectives::Transport::Ticket ticket);

/// Checks what every transport must do, on all ranks at once. Returns "ok", or what was wrong. Every rank exchanges
/// messages of zero, few and `longest` bytes with every other rank, many at a time, on both channels.
[[nodiscard]] std::string exercise_transport(collectives::Transport& transport, int rank, int size,
                                             std::size_t longest);

}  // namespace rueda::tests
