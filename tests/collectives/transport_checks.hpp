// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The Rueda authors
#pragma once

#include <string>

#include "collectives/transport.hpp"

namespace rueda::tests {

/// Polls until the message is sent or has arrived, for at most a minute. Returns the number of bytes.
[[nodiscard]] Result<std::size_t> finish(collectives::Transport& transport, collectives::Transport::Ticket ticket);

/// Checks what every transport must do. All ranks call this function at the same time. Returns "ok" or the error. Each
/// rank exchanges messages of 0 to `longest` bytes with every other rank, with many messages at the same time, on both
/// channels.
[[nodiscard]] std::string exercise_transport(collectives::Transport& transport, int rank, int size,
                                             std::size_t longest);

}  // namespace rueda::tests
