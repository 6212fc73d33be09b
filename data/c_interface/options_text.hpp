// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The Rueda authors
#pragma once

#include <string_view>

#include "base/status.hpp"
#include "rueda/data/pipeline.hpp"

namespace rueda::data {

/// Parses the options of rueda_data_open. If a member is wrong, the error names the member. Throws InvalidArgument if a
/// pattern of files matches no file, or if the position cannot be parsed.
[[nodiscard]] Result<PipelineOptions> options_from_text(std::string_view text);

}  // namespace rueda::data
