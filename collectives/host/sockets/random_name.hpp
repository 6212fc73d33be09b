// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The Rueda authors
#pragma once

#include <string>

#include "base/status.hpp"
#include "collectives/host/sockets/unix_socket.hpp"

namespace rueda::collectives {

/// Whether rank 0 must put a random part into `rendezvous`, the name of a socket. For example, in the name "@job-17-*",
/// rank 0 replaces the '*' by 32 random hexadecimal digits. The other ranks look for a socket whose name has this form.
/// Other users cannot guess the name, so they cannot take it before rank 0 does.
///
/// The name need not stay secret once rank 0 listens. A process of another user may listen at a name of the same form.
/// The kernel tells the ranks which user the process belongs to, so they skip this name.
[[nodiscard]] bool has_random_part(const std::string& rendezvous);

/// Rank 0 makes a name that is longer than `rendezvous` by this number of bytes.
inline constexpr std::size_t kRandomPartGrowth = 31;

/// Returns the name at which rank 0 must listen: `rendezvous` with a random part. Fails if a process of this user
/// already listens at a name of this form, because ranks of one job could otherwise connect to the other job.
[[nodiscard]] Result<std::string> make_random_name(const std::string& rendezvous);

/// Tries to connect to rank 0. If no process of this user listens at a name of this form yet, the error is ENOENT.
[[nodiscard]] ConnectAttempt connect_to_random_name(const std::string& rendezvous);

}  // namespace rueda::collectives
