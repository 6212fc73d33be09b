// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The Rueda authors
#include "core/negotiation/call_sites.hpp"

#include <catch2/catch.hpp>

namespace rueda::core {
namespace {

TEST_CASE("a call is named by file and line, of a long path the end") {
    CHECK(describe_site("train.py", 42) == "train.py:42");
    CHECK(describe_site(nullptr, 42).empty());
    CHECK(describe_site("", 42).empty());
    CHECK(describe_site("a\nb.py", 1) == "a?b.py:1");
    const std::string path = "/home/" + std::string(200, 'x') + "/train.py";
    const std::string cut = describe_site(path.c_str(), 123);
    CHECK(cut.size() == kSiteBytes);
    CHECK(cut.starts_with("…x"));
    CHECK(cut.ends_with("x/train.py:123"));
    std::string wide;
    for (int i = 0; i < 200; ++i) {
        wide += "ä";
    }
    const std::string cut_wide = describe_site(wide.c_str(), 12);
    CHECK(cut_wide.size() <= kSiteBytes);
    CHECK(cut_wide.substr(0, 5) == "…ä");
}

TEST_CASE("call sites are read from the arena as they were written, and made printable") {
    CHECK(read_site(site_text("train.py", 7)) == "train.py:7");
    CHECK(read_site(site_text(nullptr, 7)).empty());
    const std::string path(300, 'y');
    CHECK(read_site(site_text(path.c_str(), 7)) == describe_site(path.c_str(), 7));
    SiteText damaged;
    damaged.fill('\x1b');
    CHECK(read_site(damaged) == std::string(kSiteBytes, '?'));
    SiteLine<base::StdAtomics> line;
    line.write(site_text("train.py", 7));
    CHECK(read_site(line.read()) == "train.py:7");
}

TEST_CASE("ranks that called from one place are named together") {
    std::vector<SiteOfRanks> sites;
    CHECK(called_from(sites).empty());
    add_site(sites, "b.py:2", 3);
    add_site(sites, "a.py:1", 2);
    add_site(sites, "", 5);
    add_site(sites, "a.py:1", 0);
    add_site(sites, "a.py:1", 1);
    CHECK(called_from(sites) == "; called from: ranks 0-2: a.py:1; rank 3: b.py:2");
}

}  // namespace
}  // namespace rueda::core
