// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The Rueda authors
#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/status.hpp"

namespace rueda::launcher {

/// One `-x NAME=value`. Without a value, the ranks get the variable as ruedarun has it.
struct ExportedVariable {
    std::string name;
    std::optional<std::string> value;
    /// The user named the variable with -x. Only then may a variable that looks like a secret leave this host.
    bool named_for_export = true;
};

/// True for letters, digits and '_' that do not begin with a digit.
[[nodiscard]] bool is_variable_name(std::string_view name);

/// True if a part of the name is TOKEN, SECRET, PASSWORD, KEY or similar: "WANDB_API_KEY", "DB_PASSWORD".
[[nodiscard]] bool looks_like_a_secret(std::string_view name);

/// Reads lines NAME=value. Empty lines, lines that begin with '#', and `export ` before a name are ignored. A value may
/// be quoted as in a shell; without quotes it ends before " #". Nothing is expanded. Errors name `file`.
[[nodiscard]] Result<std::vector<ExportedVariable>> parse_env_file(std::string_view text, const std::string& file);

}  // namespace rueda::launcher
