// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The Rueda authors
#pragma once

#include <cstdint>
#include <string_view>

#include "base/shared_memory/control_block.hpp"
#include "base/system/logging.hpp"

namespace rueda::core {

/// Handles SIGTERM in a rank's process. mpirun and srun send SIGTERM to the remaining ranks as soon as one rank has
/// died. When SIGTERM comes, the background thread may not have noticed the death yet, and a process without a handler
/// would end without a message. If another rank of the host has died, this handler prints one line about the death, and
/// aborts the job with this reason. After that, the same happens as without this handler: the program's own handler
/// runs, or the process ends. docs/design/failure.md has the reasons.
///
/// A process has only one handler for a signal, so these functions serve the one Runtime of the C interface. Threads:
/// the two functions in one thread at a time; the handler in any thread.
///
/// watch_termination() installs the handler, unless SIGTERM is ignored. `host` is this host's name; "" in a job on one
/// host. `control` must stay mapped as long as the process lives.
void watch_termination(base::ControlBlock& control, std::uint32_t members, std::uint32_t own,
                       const base::Logger& logger, std::string_view host = {});
/// Restores the previous handler, unless other code has installed its own handler since. The other code's handler may
/// still call this file's handler, which then only passes the signal on.
void unwatch_termination();

}  // namespace rueda::core
