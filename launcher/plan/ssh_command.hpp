// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The Rueda authors
#pragma once

#include <optional>
#include <span>
#include <string>
#include <vector>

namespace rueda::launcher {

/// How ssh reaches the other hosts.
struct SshOptions {
    std::optional<int> port;
    std::string identity;  ///< a file with a key; if empty, ssh chooses
};

/// Returns the command that runs `program` on another host through ssh. ssh fails instead of asking for a password
/// (BatchMode), because several of these commands would ask at the same time.
[[nodiscard]] std::vector<std::string> ssh_command(const std::string& host, const SshOptions& options,
                                                   std::span<const std::string> program);

}  // namespace rueda::launcher
