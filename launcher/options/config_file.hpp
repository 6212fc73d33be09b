// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The Rueda authors
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "base/status.hpp"

namespace rueda::launcher {

/// One setting of a file for --config.
struct ConfigEntry {
    std::string name;                 ///< of an option, without its hyphens
    std::vector<std::string> values;  ///< one for each time that the option would be written
    bool is_switch = false;           ///< the file has true or false; `values` is {"true"} or {"false"}
    std::string place;                ///< "job.json:3", for errors
};

/// Reads a JSON object whose names are those of options: {"np": 4, "hosts": "a:2,b:2", "x": {"MODE": "fast"}}. Comments
/// as in C++ are allowed. An array repeats the option; an object stands for an array of NAME=value. Errors name `file`.
[[nodiscard]] Result<std::vector<ConfigEntry>> parse_config_file(std::string_view text, const std::string& file);

}  // namespace rueda::launcher
