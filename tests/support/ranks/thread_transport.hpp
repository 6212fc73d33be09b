// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The Rueda authors
#pragma once

#include <cstdint>
#include <memory>
#include <vector>

#include "collectives/transport.hpp"

namespace rueda::collectives {

/// Makes transports for ranks that are threads of this process. Element r of the result is for rank r. The transports
/// share the messages in transit, which live as long as the last transport.
///
/// Threads: each element may be used by one thread at a time.
[[nodiscard]] std::vector<std::unique_ptr<Transport>> make_thread_transports(int size);

/// Cuts the connection of `rank`: no message from or to this rank arrives afterwards. `transport` must come from
/// make_thread_transports(). Any thread may call this function.
void cut_thread_transport(Transport& transport, int rank);

/// Returns how many calls of transports in this process came from a thread that does not block SIGPIPE. Such a call is
/// a mistake: MPI's transport writes to connections, and on a broken connection, SIGPIPE would end the process.
[[nodiscard]] std::uint64_t calls_without_blocked_sigpipe();

}  // namespace rueda::collectives
