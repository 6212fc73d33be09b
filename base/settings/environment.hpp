// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The Rueda authors
#pragma once

#include <functional>
#include <map>
#include <optional>
#include <string>
#include <vector>

namespace rueda::base {

/// The environment as the reader of settings sees it, so that tests and the launcher can hand in their own.
struct EnvironmentLookup {
    std::function<std::optional<std::string>(const std::string& name)> value;
    /// All variables there are: a misspelt one is found only by looking at all.
    std::vector<std::string> names;
};

/// A copy of this process' environment. Threads: nobody may call setenv meanwhile.
[[nodiscard]] EnvironmentLookup process_environment();

[[nodiscard]] EnvironmentLookup environment_of(std::map<std::string, std::string> variables);

}  // namespace rueda::base
