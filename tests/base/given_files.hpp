// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The Rueda authors
#pragma once

#include <map>
#include <optional>
#include <string>

#include "base/files.hpp"

namespace rueda::base {

/// Returns a reader for a file system that contains only `files`.
inline FileReader reader_of(const std::map<std::string, std::string>& files) {
    return [files](const std::string& path) -> std::optional<std::string> {
        const auto found = files.find(path);
        return found == files.end() ? std::nullopt : std::optional(found->second);
    };
}

}  // namespace rueda::base
