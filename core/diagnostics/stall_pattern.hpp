// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The Rueda authors
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "core/diagnostics/stall_report.hpp"

namespace rueda::core {

/// A well-known mistake or state that explains a stall.
struct StallPattern {
    enum class Kind : std::uint8_t {
        sends_to_each_other,  ///< two ranks are in a send to each other, and neither receives
        numbered_names,       ///< ranks wait for tensors whose names differ only in a number
        loop_ended,           ///< a rank ended its loop earlier than the other ranks, because it has fewer batches
        busy,                 ///< a missing rank is in a scope that it declared
        crosswise,            ///< ranks wait for each other in different tensors
        step_behind,          ///< a missing rank has not reached the step of the other ranks
        does_not_run,         ///< a missing rank is stopped by a signal or a debugger, or gone
        undelivered,          ///< a rank is stuck in an operation, or has done less of it than the other ranks
        program_on_gpu,       ///< a GPU has not done the program's own work, which comes before an operation
        other_host,           ///< another host has not delivered its part, and no rank of this host holds it up
    };
    Kind kind = Kind::crosswise;
    std::vector<std::int32_t> ranks;  ///< the ranks that `text` is about
    std::string text;                 ///< one line
};

/// The name of the pattern in the file of a report, for example "crosswise".
[[nodiscard]] std::string_view name_of(StallPattern::Kind kind);

/// For an operation that is being executed. Returns the ranks that hold it up, as far as the report shows them. If some
/// ranks take no turns, these are the ones. Otherwise they are the ranks that have done least. A rank that takes turns
/// only waits, so it is returned only if all ranks of the job are on this host and all of them take turns.
[[nodiscard]] std::vector<std::int32_t> ranks_that_hold_up(const StallReport& report);

/// Returns the patterns that a report shows. There are at most three, and the first of them says most about the stall.
/// Reads nothing but the report.
[[nodiscard]] std::vector<StallPattern> find_stall_patterns(const StallReport& report);

}  // namespace rueda::core
