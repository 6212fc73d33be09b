// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The Rueda authors
#pragma once

#include <string>
#include <string_view>

#include "base/settings/settings.hpp"

namespace rueda::base {

// Texts about one setting, for error messages and for docs/configuration.md.

/// The kind of value, for example "bytes", "seconds", "yes or no", "auto, mpi, socket, single", …
[[nodiscard]] std::string type_text(const Setting& setting);
/// The allowed range, for example "2 … 16" or "0 or 64 … 1G". The text is empty if every value of the type is allowed.
[[nodiscard]] std::string range_text(const Setting& setting);
/// Returns the value that the setting has in `config`, in the form in which a user sets the variable. Returns an empty
/// text if the setting has no value.
[[nodiscard]] std::string value_text(const Setting& setting, const Config& config);
/// Says whose value is used if the ranks have different values: "each rank's own", "rank 0's", …
[[nodiscard]] std::string_view scope_text(const Setting& setting);
/// Says what values are allowed, for an error message after the word "expected": "a number of bytes from 0 to 1024T
/// (e.g. 64M)".
[[nodiscard]] std::string expected_text(const Setting& setting);

}  // namespace rueda::base
