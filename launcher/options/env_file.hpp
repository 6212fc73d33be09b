// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The Rueda authors
#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/status.hpp"

namespace rueda::launcher {

/// One option `-x NAME=value`. Without a value, the ranks get the value that the variable has in ruedarun's
/// environment.
struct ExportedVariable {
    std::string name;
    std::optional<std::string> value;
    /// Whether the user named the variable with -x. A variable that looks like a secret may be sent to other hosts only
    /// in this case.
    bool named_for_export = true;
};

/// True if the text consists of letters, digits and '_', and does not begin with a digit.
[[nodiscard]] bool is_variable_name(std::string_view name);

/// True if a part of the name is TOKEN, SECRET, PASSWORD, KEY or similar, for example in "WANDB_API_KEY",
/// "DB_PASSWORD".
[[nodiscard]] bool looks_like_a_secret(std::string_view name);

/// Reads lines of the form NAME=value. Empty lines, lines that begin with '#', and the word `export` before a name are
/// ignored. A value may be quoted as in a shell; without quotes it ends before " #". Variables and wildcards are not
/// expanded. Error messages contain `file`.
[[nodiscard]] Result<std::vector<ExportedVariable>> parse_env_file(std::string_view text, const std::string& file);

}  // namespace rueda::launcher
