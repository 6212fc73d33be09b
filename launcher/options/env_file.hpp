// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The Rueda authors
#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/status.hpp"

namespace rueda::launcher {

/// One `-x NAME=value`; without a value the variable is handed on as it is.
struct ExportedVariable {
    std::string name;
    std::optional<std::string> value;
    /// Named by the user for this very purpose (-x). A variable that looks like a secret leaves this host only then.
    bool named_for_export = true;
};

/// Letters, digits and '_', not beginning with a digit.
[[nodiscard]] bool is_variable_name(std::string_view name);

/// A word of the name is TOKEN, SECRET, PASSWORD, KEY or the like: "WANDB_API_KEY", "DB_PASSWORD".
[[nodiscard]] bool looks_like_a_secret(std::string_view name);

/// Lines NAME=value; empty lines and those that begin with '#' count for nothing, `export ` before a name neither. A
/// value may be quoted as in a shell; unquoted, it ends before " #". Nothing is expanded. `file` is for errors.
[[nodiscard]] Result<std::vector<ExportedVariable>> parse_env_file(std::string_view text, const std::string& file);

}  // namespace rueda::launcher
