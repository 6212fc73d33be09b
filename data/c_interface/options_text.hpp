// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The Rueda authors
#pragma once

#include <string_view>

#include "base/status.hpp"
#include "rueda/data/pipeline.hpp"

namespace rueda::data {

/// Reads the options of rueda_data_open. The error names the member that is wrong. Throws InvalidArgument if a pattern
/// of files matches nothing, or if the position cannot be read.
[[nodiscard]] Result<PipelineOptions> options_from_text(std::string_view text);

}  // namespace rueda::data
