// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The Rueda authors
#pragma once

#include <map>
#include <optional>
#include <string>
#include <string_view>

namespace rueda::launcher {

using Environment = std::map<std::string, std::string>;

struct EnvironmentChange {
    std::string name;
    std::optional<std::string> value;  ///< empty: the variable is removed
};

/// Returns the value of the variable, or an empty text if it is not set.
[[nodiscard]] inline std::string text_of(const Environment& environment, std::string_view name) {
    const auto found = environment.find(std::string(name));
    return found == environment.end() ? "" : found->second;
}

}  // namespace rueda::launcher
