// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The Rueda authors
#pragma once

#include <string>

#include "tests/support/explorer/execution.hpp"

namespace rueda::explorer {

/// The schedule so far as text, one line per operation. Only the last lines of a long one.
[[nodiscard]] std::string schedule_text(const Execution& execution);

}  // namespace rueda::explorer
