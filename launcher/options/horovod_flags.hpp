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

/// What a flag of horovodrun stands for here.
struct HorovodFlag {
    bool takes_value = false;
    /// The option of ruedarun's own that does it: "--output-dir". Its value is the flag's.
    std::string_view option;
    /// The RUEDA_* variable that does it, where there is no such option.
    std::string_view variable;
    /// What the variable is set to; empty: the flag's value.
    std::string_view fixed_value;
    /// Behind the flag's value: "M" for a number of mebibytes.
    std::string_view unit;
    /// Why it has no meaning, or what to use instead.
    std::string_view reason;
    /// The job would not be what was asked for without it: no translation, but an error with `reason`.
    bool is_refused = false;
};

/// `name` with its hyphens, as horovodrun 0.28 knows it: "--fusion-threshold-mb".
[[nodiscard]] std::optional<HorovodFlag> find_horovod_flag(std::string_view name);

/// The line that tells the user what became of the flag: translated, or ignored, and why.
[[nodiscard]] std::string describe_horovod_flag(std::string_view name, const HorovodFlag& flag,
                                                const std::string& value);

/// The variable that a flag with `variable` sets.
[[nodiscard]] ExportedVariable variable_of(const HorovodFlag& flag, const std::string& value);

}  // namespace rueda::launcher
