// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The Rueda authors
#pragma once

#include <string>
#include <string_view>

#include "base/settings/settings.hpp"

namespace rueda::base {

// Texts about a row of the table of settings. Error messages and docs/configuration.md use them.

/// The kind of value, for example "bytes", "seconds", "yes or no", "auto, mpi, socket, single", …
[[nodiscard]] std::string type_text(const Setting& setting);
/// The allowed range, for example "2 … 16" or "0 or 64 … 1G". The text is empty if every value of the type is allowed.
[[nodiscard]] std::string range_text(const Setting& setting);
/// The setting's value in a Config, as a user would write it into the variable. The text is empty if the setting has no
/// value.
[[nodiscard]] std::string value_text(const Setting& setting, const Config& config);
/// Says which rank's value counts: "each rank's own", "rank 0's", …
[[nodiscard]] std::string_view scope_text(const Setting& setting);
/// The words of an error message after "expected", for example "a number of bytes from 0 to 1024T (e.g. 64M)".
[[nodiscard]] std::string expected_text(const Setting& setting);

}  // namespace rueda::base
