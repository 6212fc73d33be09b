// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The Rueda authors
#pragma once

#include <string>

#include "tests/support/explorer/execution.hpp"

namespace rueda::explorer {

/// Returns the schedule as text, one line per operation. If the schedule is long, the text has only its last lines.
[[nodiscard]] std::string schedule_text(const Execution& execution);

}  // namespace rueda::explorer
