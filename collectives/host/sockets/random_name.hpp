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
/// The name need not stay secret once rank 0 listens. A process of another user may then listen at a similar name. The
/// ranks skip that name, because the kernel tells them which user owns the process.
[[nodiscard]] bool has_random_part(const std::string& rendezvous);

/// Rank 0 makes a name that is longer than `rendezvous` by this number of bytes.
inline constexpr std::size_t kRandomPartGrowth = 31;

/// Returns the name at which rank 0 must listen: `rendezvous` with a random part. Fails if a process of this user
/// already listens at a name of this form. Without this failure, the ranks of two jobs with the same `rendezvous` could
/// connect to the wrong job.
[[nodiscard]] Result<std::string> make_random_name(const std::string& rendezvous);

/// Tries to connect to rank 0. If no process of this user listens at a name of this form yet, the error is ENOENT.
[[nodiscard]] ConnectAttempt connect_to_random_name(const std::string& rendezvous);

}  // namespace rueda::collectives
