// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The Rueda authors
#include "core/negotiation/call_sites.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cstring>

#include "base/text.hpp"

namespace rueda::core {

std::string describe_site(const char* file, std::int32_t line) {
    if (file == nullptr || *file == '\0') {
        return {};
    }
    constexpr std::string_view kCut = "…";
    const std::string number = fmt::format(":{}", line);
    std::string_view path = file;
    const std::size_t room = kSiteBytes - number.size();
    if (path.size() <= room) {
        return base::printable(path) + number;
    }
    path.remove_prefix(path.size() - (room - kCut.size()));
    while (!path.empty() && (static_cast<unsigned char>(path.front()) & 0xc0) == 0x80) {
        path.remove_prefix(1);  // skip the remaining bytes of a UTF-8 character that was cut
    }
    return std::string(kCut) + base::printable(path) + number;
}

SiteText site_text(const char* file, std::int32_t line) {
    SiteText text{};
    const std::string site = describe_site(file, line);
    std::memcpy(text.data(), site.data(), std::min(site.size(), text.size()));
    return text;
}

std::string read_site(const SiteText& text) {
    return base::printable({text.data(), strnlen(text.data(), text.size())});
}

void add_site(std::vector<SiteOfRanks>& sites, const std::string& site, std::int32_t rank) {
    if (site.empty()) {
        return;
    }
    const auto same =
        std::find_if(sites.begin(), sites.end(), [&](const SiteOfRanks& other) { return other.site == site; });
    (same != sites.end() ? *same : sites.emplace_back(SiteOfRanks{site, {}})).ranks.push_back(rank);
}

std::string called_from(std::vector<SiteOfRanks> sites) {
    for (SiteOfRanks& site : sites) {
        std::sort(site.ranks.begin(), site.ranks.end());
    }
    std::sort(sites.begin(), sites.end(),
              [](const SiteOfRanks& a, const SiteOfRanks& b) { return a.ranks.front() < b.ranks.front(); });
    std::string text;
    for (const SiteOfRanks& site : sites) {
        text += fmt::format("{} {}: {}", text.empty() ? ":" : ";", base::format_ranks(site.ranks), site.site);
    }
    return text.empty() ? text : std::string(kCalledFrom) + text;
}

}  // namespace rueda::core
