// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The Rueda authors
#pragma once

#include <string>

namespace rueda::base {

/// Returns docs/configuration.md, made from the table of settings.
[[nodiscard]] std::string configuration_page();

}  // namespace rueda::base
