// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The Rueda authors
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "base/shared_memory/atomics.hpp"
#include "core/negotiation/layout.hpp"

/// Texts for users that say in which source line a call stands (RUEDA_CALL_SITES). Pure functions.
namespace rueda::core {

using SiteText = SiteLine<base::StdAtomics>::Text;

/// The text before the list of call sites in an error message.
inline constexpr std::string_view kCalledFrom = "; called from";

/// Returns a text such as "train.py:42". A long path is shortened to its last part. The result is "" if `file` is null
/// or empty.
[[nodiscard]] std::string describe_site(const char* file, std::int32_t line);
/// Like describe_site(), but returns the fixed-size text that is stored in the arena.
[[nodiscard]] SiteText site_text(const char* file, std::int32_t line);
/// Reads a call site from the arena. Another process wrote these bytes, so the function replaces control characters.
[[nodiscard]] std::string read_site(const SiteText& text);

struct SiteOfRanks {
    std::string site;
    std::vector<std::int32_t> ranks;
};
/// Adds `rank` to the ranks that called from `site`. Does nothing if `site` is "".
void add_site(std::vector<SiteOfRanks>& sites, const std::string& site, std::int32_t rank);
/// Returns a text such as "; called from: ranks 0-2: train.py:42; rank 3: train.py:57". The call site of the lowest
/// rank comes first. The result is "" if `sites` is empty.
[[nodiscard]] std::string called_from(std::vector<SiteOfRanks> sites);

}  // namespace rueda::core
