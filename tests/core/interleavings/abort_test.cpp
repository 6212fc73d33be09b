// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The Rueda authors
#include "base/shared_memory/abort.hpp"

#include <catch2/catch.hpp>
#include <string>

#include "tests/core/interleavings/explored_set.hpp"
#include "tests/support/explorer/check_passed.hpp"

namespace rueda::core::test {
namespace {

struct Aborting {
    base::AbortBlock<ExploredAtomics> block;
    /// Stands for the text of the abort's reason. A rank writes this text before it raises the abort.
    std::array<ExploredPlain<std::uint32_t>, 2> before;
    std::array<bool, 2> won{};
    std::array<std::string, 2> read;
};

void raise(Aborting& s, std::size_t raiser) {
    s.before[raiser].write(1);
    s.won[raiser] = s.block.raise(raiser == 0 ? ErrorCode::timeout : ErrorCode::internal, raiser == 0 ? "zero" : "one");
}

void read(Aborting& s, std::size_t reader) {
    while (!s.block.raised()) {
        ExploredAtomics::pause();
    }
    const Status reason = s.block.reason();
    const std::size_t raiser = reason.message() == "zero" ? 0 : 1;
    RUEDA_EXPLORER_REQUIRE(reason.message() == (raiser == 0 ? "zero" : "one"));
    RUEDA_EXPLORER_REQUIRE(reason.code() == (raiser == 0 ? ErrorCode::timeout : ErrorCode::internal));
    RUEDA_EXPLORER_REQUIRE(s.before[raiser].read() == 1);
    s.read[reader] = reason.message();
}

TEST_CASE("two reasons to abort: one wins, and all who see it read it whole", "[unit]") {
    for (const Orders memory : {Orders::sequentially_consistent, Orders::store_buffers}) {
        check_passed(explore<Aborting>([](Aborting&) {},
                                       {[](Aborting& s) { raise(s, 0); }, [](Aborting& s) { raise(s, 1); },
                                        [](Aborting& s) { read(s, 0); }, [](Aborting& s) { read(s, 1); }},
                                       [](Aborting& s) {
                                           RUEDA_EXPLORER_REQUIRE(s.won[0] != s.won[1]);
                                           RUEDA_EXPLORER_REQUIRE(s.read[0] == (s.won[0] ? "zero" : "one"));
                                           RUEDA_EXPLORER_REQUIRE(s.read[1] == s.read[0]);
                                       },
                                       {.memory = memory}));
    }
}

TEST_CASE("a reader in the middle of a raise waits for the text, and has the fallback before", "[unit]") {
    bool text = false;
    bool fallback = false;
    check_passed(explore<Aborting>(
        [](Aborting&) {},
        {[](Aborting& s) { raise(s, 0); }, [](Aborting& s) { s.read[0] = s.block.reason().message(); }},
        [&](Aborting& s) {
            text = text || s.read[0] == "zero";
            fallback = fallback || s.read[0] != "zero";
            RUEDA_EXPLORER_REQUIRE(s.read[0] == "zero" ||
                                   s.read[0] ==
                                       "the job was aborted, and the rank that did it died before it "
                                       "could say why");
        }));
    CHECK(text);
    CHECK(fallback);
}

}  // namespace
}  // namespace rueda::core::test
