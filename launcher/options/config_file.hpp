// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The Rueda authors
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "base/status.hpp"

namespace rueda::launcher {

/// One option in a file for --config.
struct ConfigEntry {
    std::string name;                 ///< the name of the option, without its hyphens
    std::vector<std::string> values;  ///< the option's values; there are several if the option is repeated
    bool is_switch = false;  ///< whether the option has the value true or false in the file; if so, `values` is
                             ///< {"true"} or {"false"}
    std::string place;       ///< the place in the file for errors, for example "job.json:3"
};

/// Parses a JSON object whose names are names of options: {"np": 4, "hosts": "a:2,b:2", "x": {"MODE": "fast"}}. C++
/// comments are allowed. An array stands for a repeated option. An object stands for an array of texts NAME=value.
/// Error messages contain `file`.
[[nodiscard]] Result<std::vector<ConfigEntry>> parse_config_file(std::string_view text, const std::string& file);

}  // namespace rueda::launcher
