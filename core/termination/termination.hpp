// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The Rueda authors
#pragma once

#include <cstdint>
#include <string_view>

#include "base/shared_memory/control_block.hpp"
#include "base/system/logging.hpp"

namespace rueda::core {

/// mpirun and srun send SIGTERM to the remaining ranks as soon as one has died. At this time the background thread has
/// not looked, and a process with the default action prints nothing. So this process handles SIGTERM. If another rank
/// of the host has died, the handler prints this in one line, which is also the reason of the abort. Then it does what
/// would have happened without Rueda: it calls the program's handler or ends the process by the signal.
/// docs/design/failure.md has the reasons.
///
/// The disposition of a signal belongs to the process, so this is for the one Runtime of the C interface. Threads: both
/// functions by one thread at a time; the handler in any thread.

/// `host` is the name of this host if the job has several. If SIGTERM is ignored, nothing is installed. `control` stays
/// mapped as long as the process lives.
void watch_termination(base::ControlBlock& control, std::uint32_t members, std::uint32_t own,
                       const base::Logger& logger, std::string_view host = {});
/// Restores the previous handler, unless other code has installed a handler meanwhile. If that handler calls ours, ours
/// only passes the signal on.
void unwatch_termination();

}  // namespace rueda::core
