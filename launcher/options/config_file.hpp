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
    std::vector<std::string> values;  ///< the option's values; an option that is repeated has several
    bool is_switch = false;           ///< whether the value in the file is true or false; then `values` is {"true"} or
                                      ///< {"false"}
    std::string place;                ///< "job.json:3", for errors
};

/// Reads a JSON object whose names are those of options: {"np": 4, "hosts": "a:2,b:2", "x": {"MODE": "fast"}}. Comments
/// as in C++ are allowed. An array stands for an option that is repeated. An object stands for an array of texts
/// NAME=value. Error messages contain `file`.
[[nodiscard]] Result<std::vector<ConfigEntry>> parse_config_file(std::string_view text, const std::string& file);

}  // namespace rueda::launcher
