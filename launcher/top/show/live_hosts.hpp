// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The Rueda authors
#pragma once

#include <chrono>

#include "launcher/top/hosts/ask_hosts.hpp"

namespace rueda::launcher {

/// Shows the ranks of several hosts on the terminal until the user presses q, a signal arrives, or nothing more comes
/// from any host. The question's arguments must make rueda print a line of JSON for each interval. Returns the exit
/// status.
[[nodiscard]] int show_live_hosts(const HostsQuestion& question, std::chrono::nanoseconds interval);

}  // namespace rueda::launcher
