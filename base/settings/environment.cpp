// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The Rueda authors
#include "base/settings/environment.hpp"

#include <unistd.h>

#include <memory>
#include <string_view>
#include <utility>

namespace rueda::base {

EnvironmentLookup process_environment() {
    std::map<std::string, std::string> variables;
    for (char** entry = environ; entry != nullptr && *entry != nullptr; ++entry) {
        const std::string_view text = *entry;
        const std::size_t equals = text.find('=');
        if (equals != std::string_view::npos && equals > 0) {
            // If a name occurs twice, the first value counts, as in getenv().
            variables.emplace(text.substr(0, equals), text.substr(equals + 1));
        }
    }
    return environment_of(std::move(variables));
}

EnvironmentLookup environment_of(std::map<std::string, std::string> variables) {
    EnvironmentLookup lookup;
    for (const auto& [name, value] : variables) {
        lookup.names.push_back(name);
    }
    const auto shared = std::make_shared<const std::map<std::string, std::string>>(std::move(variables));
    lookup.value = [shared](const std::string& name) -> std::optional<std::string> {
        const auto found = shared->find(name);
        return found == shared->end() ? std::nullopt : std::optional(found->second);
    };
    return lookup;
}

}  // namespace rueda::base
