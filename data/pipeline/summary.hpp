// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The Rueda authors
#pragma once

#include <string>

#include "rueda/data/pipeline.hpp"

namespace rueda::data {

/// Returns the line of Pipeline::summary().
[[nodiscard]] std::string summarize(const Statistics& statistics);

}  // namespace rueda::data
