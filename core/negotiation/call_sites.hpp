// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The Rueda authors
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "base/atomics.hpp"
#include "core/negotiation/layout.hpp"

/// Where calls stand in the source, for people (RUEDA_CALL_SITES). Pure.
namespace rueda::core {

using SiteText = SiteLine<base::StdAtomics>::Text;

/// What stands in front of the places in an error.
inline constexpr std::string_view kCalledFrom = "; called from";

/// "train.py:42"; of a long path the end. "" for no file.
[[nodiscard]] std::string describe_site(const char* file, std::int32_t line);
/// The same, as it lies in the arena.
[[nodiscard]] SiteText site_text(const char* file, std::int32_t line);
/// Out of the arena: bytes of another process.
[[nodiscard]] std::string read_site(const SiteText& text);

struct SiteOfRanks {
    std::string site;
    std::vector<std::int32_t> ranks;
};
/// Adds a rank to those that called from the same place; "" is none.
void add_site(std::vector<SiteOfRanks>& sites, const std::string& site, std::int32_t rank);
/// "; called from: ranks 0-2: train.py:42; rank 3: train.py:57", those of the lowest rank first; "" for none.
[[nodiscard]] std::string called_from(std::vector<SiteOfRanks> sites);

}  // namespace rueda::core
