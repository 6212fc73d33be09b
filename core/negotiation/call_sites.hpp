// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The Rueda authors
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "base/shared_memory/atomics.hpp"
#include "core/negotiation/layout.hpp"

/// Describes for users where in the source code calls stand (RUEDA_CALL_SITES). Pure.
namespace rueda::core {

using SiteText = SiteLine<base::StdAtomics>::Text;

/// The words that come before the list of call sites in an error.
inline constexpr std::string_view kCalledFrom = "; called from";

/// For example "train.py:42". Contains only the end of a long path. "" if there is no file.
[[nodiscard]] std::string describe_site(const char* file, std::int32_t line);
/// Returns the same text in the form in which it is stored in the arena.
[[nodiscard]] SiteText site_text(const char* file, std::int32_t line);
/// Reads the text from the arena. The text comes from another process, so it is checked.
[[nodiscard]] std::string read_site(const SiteText& text);

struct SiteOfRanks {
    std::string site;
    std::vector<std::int32_t> ranks;
};
/// Adds a rank to the ranks that called from the same place. If the place is "", adds nothing.
void add_site(std::vector<SiteOfRanks>& sites, const std::string& site, std::int32_t rank);
/// For example "; called from: ranks 0-2: train.py:42; rank 3: train.py:57". The place of the lowest rank comes first.
/// "" if there are no places.
[[nodiscard]] std::string called_from(std::vector<SiteOfRanks> sites);

}  // namespace rueda::core
