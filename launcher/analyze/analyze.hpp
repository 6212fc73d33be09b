// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The Rueda authors
#pragma once

#include <span>
#include <string>
#include <vector>

#include "launcher/analyze/analysis.hpp"

namespace rueda::launcher {

/// The exit status of `rueda analyze`.
enum class AnalyzeExit : int {
    clean = 0,    ///< the ranks do not diverge, and nothing was pending
    finding = 1,  ///< some ranks diverge, or operations were pending
    failed = 2,   ///< files are missing or cannot be read
};

/// Runs `rueda analyze` with these arguments. Prints the result to the standard output, and errors to the standard
/// error. Returns the exit status.
[[nodiscard]] int run_analyze(std::span<const std::string> arguments);

/// Returns the text that `rueda analyze` prints for people.
[[nodiscard]] std::string format_analysis(const Analysis& analysis);
/// Returns the same facts as JSON, for programs.
[[nodiscard]] std::string format_analysis_json(const Analysis& analysis);

}  // namespace rueda::launcher
