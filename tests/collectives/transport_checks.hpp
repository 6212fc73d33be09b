// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The Rueda authors
#pragma once

#include <string>

#include "collectives/transport.hpp"

namespace rueda::tests {

/// Asks until the message has left or is there, for a minute: its bytes.
[[nodiscard]] Result<std::size_t> finish(collectives::Transport& transport, collectives::Transport::Ticket ticket);

/// What every transport must do, on all ranks at once: "ok", or what was wrong. Every rank exchanges with every other
/// one messages of zero, few and `longest` bytes, many under way at a time, on both channels.
[[nodiscard]] std::string exercise_transport(collectives::Transport& transport, int rank, int size,
                                             std::size_t longest);

}  // namespace rueda::tests
