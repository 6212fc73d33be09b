// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The Rueda authors
#pragma once

#include <string>
#include <string_view>

#include "base/settings/settings.hpp"

namespace rueda::base {

// Texts for the rows of the table of settings, for error messages and docs/configuration.md.

/// The kind of value: "bytes", "seconds", "yes or no", "auto, mpi, socket, single", …
[[nodiscard]] std::string type_text(const Setting& setting);
/// The allowed range, "2 … 16" or "0 or 64 … 1G"; empty if every value of the type is allowed.
[[nodiscard]] std::string range_text(const Setting& setting);
/// The value in a Config, as a user would write it into the variable; empty if it is not set.
[[nodiscard]] std::string value_text(const Setting& setting, const Config& config);
/// Which rank's value counts: "each rank's own", "rank 0's", …
[[nodiscard]] std::string_view scope_text(const Setting& setting);
/// What a message says after "expected": "a number of bytes from 0 to 1024T (e.g. 64M)".
[[nodiscard]] std::string expected_text(const Setting& setting);

}  // namespace rueda::base
