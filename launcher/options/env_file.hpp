// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The Rueda authors
#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/status.hpp"

namespace rueda::launcher {

/// One option `-x NAME=value`. If `value` is empty, the ranks get the variable's value from ruedarun's environment.
struct ExportedVariable {
    std::string name;
    std::optional<std::string> value;
    /// Whether the user named the variable with -x. Only then may a variable that looks like a secret be sent to other
    /// hosts.
    bool named_for_export = true;
};

/// Whether the text consists of letters, digits and '_', and does not begin with a digit.
[[nodiscard]] bool is_variable_name(std::string_view name);

/// Whether a part of the name is TOKEN, SECRET, PASSWORD, KEY or similar, for example in "WANDB_API_KEY" and
/// "DB_PASSWORD".
[[nodiscard]] bool looks_like_a_secret(std::string_view name);

/// Parses lines of the form NAME=value. Empty lines, lines that begin with '#', and the word `export` before a name are
/// ignored. A value may be quoted as in a shell. A value without quotes ends before " #". Variables and wildcards are
/// not expanded. Error messages contain `file`.
[[nodiscard]] Result<std::vector<ExportedVariable>> parse_env_file(std::string_view text, const std::string& file);

}  // namespace rueda::launcher
