// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The Rueda authors
#pragma once

#include <string>

#include "collectives/transport.hpp"

namespace rueda::tests {

/// Polls the message until it has been sent or has arrived, for at most a minute. Returns its number of bytes.
[[nodiscard]] Result<std::size_t> finish(collectives::Transport& transport, collectives::Transport::Ticket ticket);

/// Checks the behaviour that every transport must have. All ranks call it at the same time. Returns "ok", or what was
/// wrong. Every rank exchanges messages with every other rank: empty, short, and `longest` bytes long. Many messages
/// are pending at the same time, on both channels.
[[nodiscard]] std::string exercise_transport(collectives::Transport& transport, int rank, int size,
                                             std::size_t longest);

}  // namespace rueda::tests
