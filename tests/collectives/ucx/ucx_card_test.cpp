// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The Rueda authors
// Tests the cards (UcxCard) that ranks exchange before they connect over UCX, and the loading of the plugin. These
// tests need no UCX.
#include "collectives/ucx/ucx_card.hpp"

#include <catch2/catch.hpp>
#include <memory>
#include <string>
#include <vector>

#include "collectives/ucx/load_plugin.hpp"
#include "collectives/ucx/ucx_rendezvous.hpp"
#include "tests/collectives/plane_checks.hpp"

namespace rueda::tests {
namespace {

using collectives::BulkTransport;
using collectives::Bytes;
using collectives::UcxCard;

Bytes address_of(std::size_t length) { return pattern(length, 4); }

/// Calls rendezvous_over_ucx() as rank 0, which cannot use UCX. The other ranks send the cards `others`. Returns the
/// reason why the ranks have no transport.
std::string why_not(std::vector<Bytes> others) {
    const auto allgather = [&](std::span<const std::byte> mine) -> Result<std::vector<Bytes>> {
        std::vector<Bytes> all = others;
        all.insert(all.begin(), Bytes(mine.begin(), mine.end()));
        return all;
    };
    collectives::UcxRendezvousOptions options;
    options.size = static_cast<int>(others.size()) + 1;
    options.create = [](int, int) -> Result<std::unique_ptr<BulkTransport>> {
        return failure(ErrorCode::unsupported, "it is not there");
    };
    return collectives::rendezvous_over_ucx(allgather, options).value().why_not;
}

TEST_CASE("a card for UCX keeps its fields", "[unit]") {
    const UcxCard card{"", "ucx 1.13.1", address_of(300)};
    const auto read = collectives::parse_ucx_card(encode(card));
    REQUIRE(read.is_ok());
    CHECK(read.value().cannot.empty());
    CHECK(read.value().description == "ucx 1.13.1");
    CHECK(read.value().address == card.address);
    const auto refusal = collectives::parse_ucx_card(encode(UcxCard{std::string(5000, 'x'), "", {}}));
    REQUIRE(refusal.is_ok());
    CHECK(refusal.value().cannot.size() == 1024);
    CHECK(refusal.value().address.empty());
}

TEST_CASE("a damaged card for UCX is refused", "[unit]") {
    const Bytes good = encode(UcxCard{"", "ucx 1.13.1", address_of(20)});
    std::vector<Bytes> bad{{}, Bytes(good.begin(), good.end() - 1), good, good};
    bad[2].push_back(std::byte{0});
    bad[3][0] = std::byte{0xff};
    bad.push_back(encode(UcxCard{"", "ucx 1.13.1", {}}));                                          // says nothing
    bad.push_back(encode(UcxCard{"no", "ucx 1.13.1", address_of(5)}));                             // says both
    bad.push_back(encode(UcxCard{"", "ucx", address_of(collectives::kMostUcxAddressBytes + 1)}));  // too long
    for (const Bytes& bytes : bad) {
        CHECK_FALSE(collectives::parse_ucx_card(bytes).is_ok());
        CHECK(why_not({bytes}).find("rank 0: it is not there") == 0);
    }
}

TEST_CASE("the first rank that cannot use UCX is named", "[unit]") {
    const Bytes good = encode(UcxCard{"", "ucx 1.13.1", address_of(20)});
    CHECK(why_not({good, good}) == "rank 0: it is not there");
}

TEST_CASE("a missing UCX plugin names the package", "[unit]") {
    // The folder of this program contains no plugin.
    const std::string missing = outcome(collectives::load_ucx_plugin("").status());
    CHECK(missing.find("Unsupported: the UCX plugin was not found, looked for ") == 0);
    CHECK(missing.find("(Debian: libucx-dev)") != std::string::npos);
    const std::string named = outcome(collectives::load_ucx_plugin("/nowhere/librueda_ucx.so").status());
    CHECK(named.find("Unsupported: the UCX plugin '/nowhere/librueda_ucx.so' cannot be loaded: ") == 0);
    CHECK(named.find("(Debian: libucx0)") != std::string::npos);
    const std::string other = outcome(collectives::load_ucx_plugin(RUEDA_STAND_IN_PLUGIN).status());
    CHECK(other.find("is no UCX plugin of Rueda") != std::string::npos);
}

}  // namespace
}  // namespace rueda::tests
