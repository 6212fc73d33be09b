// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The Rueda authors
#pragma once

#include <cstdint>
#include <string_view>

#include "base/shared_memory/control_block.hpp"
#include "base/system/logging.hpp"

namespace rueda::core {

/// mpirun and srun send SIGTERM to the ranks that are left as soon as one has died: before the background thread has
/// looked, and a process with the default action says nothing. So this process' SIGTERM is handled: where another rank
/// of the host has died, that is said in one line (and is the reason of the abort); then comes what would have come
/// without Rueda, the program's handler or the end by the signal. The reasons for this form: docs/design/failure.md.
///
/// The disposition of a signal belongs to the process, so this is for the one Runtime of the C interface.
/// Threads: both functions by one thread at a time; the handler in any thread.

/// `host`: where a job has several, the name of this one. Not where SIGTERM is ignored. `control` stays mapped as long
/// as the process lives.
void watch_termination(base::ControlBlock& control, std::uint32_t members, std::uint32_t own,
                       const base::Logger& logger, std::string_view host = {});
/// Puts back what was there before, unless somebody has installed another handler meanwhile; who calls ours from his
/// finds it passing on.
void unwatch_termination();

}  // namespace rueda::core
