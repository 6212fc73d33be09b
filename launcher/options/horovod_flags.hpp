// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The Rueda authors
#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/status.hpp"
#include "launcher/options/env_file.hpp"

namespace rueda::launcher {

/// What ruedarun does with a flag of horovodrun.
struct HorovodFlag {
    bool takes_value = false;
    /// The option of ruedarun with the same effect, for example "--output-dir". This option gets the flag's value.
    std::string_view option;
    /// The environment variable with the same effect, if ruedarun has no option with this effect.
    std::string_view variable;
    /// The value of the variable. If this text is empty, the variable gets the flag's value.
    std::string_view fixed_value;
    /// A text that is appended to the flag's value, for example "M" for mebibytes.
    std::string_view unit;
    /// Why the flag has no effect, or what to use instead.
    std::string_view reason;
    /// Whether ruedarun refuses the flag, with `reason` as the error message. Such a flag cannot be ignored: without
    /// it, the job would not do what the user wants.
    bool is_refused = false;
};

/// Finds a flag of horovodrun. `name` contains the hyphens, as in horovodrun 0.28: "--fusion-threshold-mb".
[[nodiscard]] std::optional<HorovodFlag> find_horovod_flag(std::string_view name);

/// Returns a line for the user which says that the flag was translated, or that it was ignored and why.
[[nodiscard]] std::string describe_horovod_flag(std::string_view name, const HorovodFlag& flag,
                                                const std::string& value);

/// Returns the variable that the flag sets. `flag.variable` must not be empty.
[[nodiscard]] ExportedVariable variable_of(const HorovodFlag& flag, const std::string& value);

}  // namespace rueda::launcher
