// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The Rueda authors
#pragma once

#include <string>

#include "rueda/data/pipeline.hpp"

namespace rueda::data {

/// Names the stage that determined the speed, and says what would help. Returns an empty text for a run of less than a
/// second or without batches.
[[nodiscard]] std::string describe_slowest(const Statistics& statistics);
/// Returns the line of Pipeline::summary().
[[nodiscard]] std::string summarize(const Statistics& statistics);

}  // namespace rueda::data
