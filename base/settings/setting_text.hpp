// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The Rueda authors
#pragma once

#include <string>
#include <string_view>

#include "base/settings/settings.hpp"

namespace rueda::base {

// How rows of the table of settings read, in error messages and in docs/configuration.md.

/// "bytes", "seconds", "yes or no", "auto, mpi, socket, single", …
[[nodiscard]] std::string type_text(const Setting& setting);
/// "2 … 16", "0 or 64 … 1G"; empty where everything of the type is allowed.
[[nodiscard]] std::string range_text(const Setting& setting);
/// The value of a Config as one would write it into the variable; empty where it is not set.
[[nodiscard]] std::string value_text(const Setting& setting, const Config& config);
/// "each rank's own", "rank 0's", …: whose value counts.
[[nodiscard]] std::string_view scope_text(const Setting& setting);
/// For messages, after "expected": "a number of bytes from 0 to 1024T (e.g. 64M)".
[[nodiscard]] std::string expected_text(const Setting& setting);

}  // namespace rueda::base
