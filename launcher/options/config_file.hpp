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
    std::vector<std::string> values;  ///< one for each time the option would be written
    bool is_switch = false;           ///< true or false stood there: values is {"true"} or {"false"}
    std::string place;                ///< "job.json:3", for errors
};

/// A JSON object whose names are those of options: {"np": 4, "hosts": "a:2,b:2", "x": {"MODE": "fast"}}. Comments as in
/// C++ are allowed. An array repeats the option, an object is an array of NAME=value. `file` is for errors.
[[nodiscard]] Result<std::vector<ConfigEntry>> parse_config_file(std::string_view text, const std::string& file);

}  // namespace rueda::launcher
