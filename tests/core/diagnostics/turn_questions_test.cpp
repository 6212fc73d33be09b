// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The Rueda authors
// Tests how one rank asks other ranks whether they take turns. The test itself plays the ranks that answer.
#include "core/diagnostics/turn_questions.hpp"

#include <catch2/catch.hpp>
#include <cstdint>
#include <limits>
#include <memory>
#include <optional>

#include "core/diagnostics/seconds.hpp"

namespace rueda::core::test {
namespace {

constexpr std::int64_t kNow = 100 * kSecond;
constexpr std::int64_t kSilence = 2 * kSecond;

struct Host {
    std::unique_ptr<base::ControlBlock> control = std::make_unique<base::ControlBlock>();
    TurnQuestions questions{*control, kSilence};

    Host() {
        for (const std::uint32_t member : {0U, 1U, 2U}) {
            beat(member, kNow);
        }
    }
    void beat(std::uint32_t member, std::int64_t at_ns) const { control->ranks[member].heartbeat_ns.store(at_ns); }
    [[nodiscard]] base::TurnBlock& block(std::uint32_t member) const { return control->ranks[member].turns; }
    void pass_on(std::uint32_t member) const { block(member).passed_on.store(block(member).asked.load()); }
    void answer(std::uint32_t member) const {
        pass_on(member);
        block(member).answered.store(block(member).asked.load());
    }
};

TEST_CASE("a member that answers takes turns, and one that does not answer takes none", "[turns]") {
    Host host;
    CHECK_FALSE(host.questions.ask(0b011, kNow).are_complete);
    CHECK(host.block(2).asked.load() == 0);
    host.answer(0);
    host.pass_on(1);
    TurnQuestions::Answers answers = host.questions.ask(0b011, kNow + kSecond);
    CHECK_FALSE(answers.are_complete);  // member 1 has had no time since its question was passed on
    CHECK(answers.takes_turns[0] == true);
    CHECK_FALSE(answers.takes_turns[1]);
    CHECK(host.block(0).asked.load() == 1);  // each member is asked once in a round
    answers = host.questions.ask(0b011, kNow + 2 * kSecond);
    CHECK(answers.are_complete);
    CHECK(answers.takes_turns[0] == true);
    CHECK(answers.takes_turns[1] == false);
    CHECK_FALSE(answers.takes_turns[2]);
    host.answer(1);  // the member was only slow
    CHECK(host.questions.ask(0b011, kNow + 2 * kSecond).takes_turns[1] == true);
}

TEST_CASE("a member whose background thread passes no question on is not accused", "[turns]") {
    Host host;
    CHECK_FALSE(host.questions.ask(0b110, kNow).are_complete);
    host.answer(2);
    host.beat(1, kNow + 2 * kSecond);
    CHECK_FALSE(host.questions.ask(0b110, kNow + 2 * kSecond).are_complete);
    // Member 1 responds, and nevertheless does not pass the question on for a long time.
    host.beat(1, kNow + 3 * kSecond);
    TurnQuestions::Answers answers = host.questions.ask(0b110, kNow + 3 * kSecond);
    CHECK(answers.are_complete);
    CHECK_FALSE(answers.takes_turns[1]);
    CHECK(answers.takes_turns[2] == true);

    // The background thread of member 1 does not run, so the next round does not ask it.
    host.questions.end_round();
    host.beat(2, kNow + 6 * kSecond);
    CHECK_FALSE(host.questions.ask(0b110, kNow + 6 * kSecond).are_complete);
    CHECK(host.block(1).asked.load() == 1);
    CHECK(host.block(2).asked.load() == 2);
    host.answer(2);
    answers = host.questions.ask(0b110, kNow + 6 * kSecond);
    CHECK(answers.are_complete);
    CHECK_FALSE(answers.takes_turns[1]);

    // If the background thread stops after it was asked, the report does not wait for it.
    host.questions.end_round();
    host.beat(1, kNow + 7 * kSecond);
    CHECK_FALSE(host.questions.ask(0b010, kNow + 7 * kSecond).are_complete);
    CHECK(host.questions.ask(0b010, kNow + 7 * kSecond + kSilence + 1).are_complete);
}

TEST_CASE("an answer to an earlier question does not count, and the numbers may start again at 0", "[turns]") {
    Host host;
    constexpr std::uint32_t kLast = std::numeric_limits<std::uint32_t>::max();
    for (auto* const number : {&host.block(0).asked, &host.block(0).passed_on, &host.block(0).answered}) {
        number->store(kLast - 1);
    }
    CHECK_FALSE(host.questions.ask(0b001, kNow).are_complete);
    CHECK(host.block(0).asked.load() == kLast);
    TurnQuestions other(*host.control, kSilence);  // for example, for another process set
    CHECK_FALSE(other.ask(0b001, kNow).are_complete);
    CHECK(host.block(0).asked.load() == 0);
    host.block(0).answered.store(kLast);
    CHECK(host.questions.ask(0b001, kNow).takes_turns[0] == true);
    CHECK_FALSE(other.ask(0b001, kNow).takes_turns[0]);
    host.answer(0);
    CHECK(other.ask(0b001, kNow).takes_turns[0] == true);
    CHECK(host.questions.ask(0b001, kNow).takes_turns[0] == true);
}

}  // namespace
}  // namespace rueda::core::test
