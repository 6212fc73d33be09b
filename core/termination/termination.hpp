// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The Rueda authors
#pragma once

#include <cstdint>
#include <string_view>

#include "base/shared_memory/control_block.hpp"
#include "base/system/logging.hpp"

namespace rueda::core {

/// mpirun and srun send SIGTERM to the remaining ranks as soon as one has died. At this time the background thread may
/// not have noticed the death, and a process with the default action prints nothing. So this process handles SIGTERM.
/// If another rank of the host has died, the handler prints this in one line, and aborts the job with this reason. Then
/// it does what would have happened without Rueda: it calls the program's handler, or the signal ends the process.
/// docs/design/failure.md has the reasons.
///
/// A signal's handler belongs to the process, so these functions are only for the one Runtime of the C interface.
/// Threads: one thread at a time may call the two functions; the handler runs in any thread.

/// `host` is the name of this host if the job has several hosts. If SIGTERM is ignored, no handler is installed.
/// `control` must stay mapped as long as the process lives.
void watch_termination(base::ControlBlock& control, std::uint32_t members, std::uint32_t own,
                       const base::Logger& logger, std::string_view host = {});
/// Restores the previous handler, unless other code has installed a handler meanwhile. If that handler calls the
/// handler of this file, it only passes the signal to the previous handler.
void unwatch_termination();

}  // namespace rueda::core
