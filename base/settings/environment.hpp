// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The Rueda authors
#pragma once

#include <functional>
#include <map>
#include <optional>
#include <string>
#include <vector>

namespace rueda::base {

/// The environment variables that read_config() reads. Tests and the launcher can pass in other variables than those of
/// the process.
struct EnvironmentLookup {
    std::function<std::optional<std::string>(const std::string& name)> value;
    /// The names of all variables. read_config() needs them to find misspelt names.
    std::vector<std::string> names;
};

/// Copies the environment of this process. Threads: no other thread may call setenv during this call.
[[nodiscard]] EnvironmentLookup process_environment();

[[nodiscard]] EnvironmentLookup environment_of(std::map<std::string, std::string> variables);

}  // namespace rueda::base
