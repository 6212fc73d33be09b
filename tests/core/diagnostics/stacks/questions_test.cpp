// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The Rueda authors
// Tests how one rank asks for a stack and another rank answers. One process plays all ranks.
#include <unistd.h>

#include <atomic>
#include <catch2/catch.hpp>
#include <chrono>
#include <memory>
#include <optional>
#include <string>
#include <thread>

#include "base/shared_memory/control_block.hpp"
#include "base/stacks/stack_questions.hpp"
#include "core/diagnostics/stacks/requested_stacks.hpp"
#include "core/diagnostics/stacks/stack_responder.hpp"
#include "tests/core/diagnostics/stacks/workloads.hpp"
#include "tests/support/child.hpp"

namespace rueda::core::test {
namespace {

constexpr std::int64_t kSecond = 1'000'000'000;
constexpr std::int64_t kNow = 100 * kSecond;

struct Host {
    std::unique_ptr<base::ControlBlock> control = std::make_unique<base::ControlBlock>();
    base::HostBlocks blocks{*control};
    base::StackQuestions questions{blocks, 2 * kSecond};

    Host() {
        for (std::uint32_t member = 0; member < 3; ++member) {
            control->ranks[member].pid.store(getpid());
            control->ranks[member].global_rank.store(static_cast<std::int32_t>(member));
            control->ranks[member].heartbeat_ns.store(kNow);
        }
    }
    void offer(std::uint32_t member, base::StackOffer offer) {
        control->stack_of(member).offer.store(static_cast<std::uint32_t>(offer));
    }
    void answer(std::uint32_t member, const std::string& text) {
        base::StackBlock& block = control->stack_of(member);
        block.text.write(text);
        block.answered.store(block.asked.load());
    }
};

}  // namespace

TEST_CASE("a rank that does not take part in stacks is neither asked nor mentioned", "[stacks]") {
    Host host;
    CHECK(host.questions.ask(0b111, kNow));
    CHECK(host.control->stack_of(1).asked.load() == 0);
    CHECK(host.questions.text_of(1, getpid(), kNow).empty());
}

TEST_CASE("a rank is asked once per round, and its answer is taken", "[stacks]") {
    Host host;
    host.offer(1, base::StackOffer::offered);
    host.answer(1, "old");
    CHECK_FALSE(host.questions.ask(0b010, kNow));
    CHECK_FALSE(host.questions.ask(0b010, kNow + kSecond / 5));
    CHECK(host.control->stack_of(1).asked.load() == 1);
    CHECK(host.questions.text_of(1, getpid(), kNow)
              .starts_with("stack: it could not be read: the rank has not answered in time"));
    host.answer(1, "native:\n  f\x1b");
    CHECK(host.questions.ask(0b010, kNow + kSecond / 5));
    CHECK(host.questions.text_of(1, getpid(), kNow) == "native:\n  f?");
    CHECK(base::has_stack(host.questions.text_of(1, getpid(), kNow)));
    host.questions.end_round();
    CHECK_FALSE(host.questions.ask(0b010, kNow + kSecond));
    CHECK(host.control->stack_of(1).asked.load() == 2);
}

TEST_CASE("the answer to a later question of another rank is one, too", "[stacks]") {
    Host host;
    host.offer(1, base::StackOffer::offered);
    host.control->stack_of(1).asked.store(0xFFFF'FFFE);  // the next numbers of questions wrap around at 2^32
    host.control->stack_of(1).answered.store(0xFFFF'FFFE);
    CHECK_FALSE(host.questions.ask(0b010, kNow));
    base::StackQuestions other(host.blocks, 2 * kSecond);
    CHECK_FALSE(other.ask(0b010, kNow));
    host.answer(1, "both");
    CHECK(host.control->stack_of(1).answered.load() == 0);
    CHECK(host.questions.ask(0b010, kNow));
    CHECK(host.questions.text_of(1, getpid(), kNow) == "both");
    CHECK(other.text_of(1, getpid(), kNow) == "both");
}

TEST_CASE("a rank that does not answer is given up after some seconds", "[stacks]") {
    Host host;
    host.offer(1, base::StackOffer::offered);
    CHECK_FALSE(host.questions.ask(0b010, kNow));
    host.control->ranks[1].heartbeat_ns.store(kNow + 3 * kSecond);
    CHECK(host.questions.ask(0b010, kNow + 3 * kSecond));
}

TEST_CASE("a rank whose background thread does not run is described from outside", "[stacks]") {
    Host host;
    tests::Child child;
    child.stop();
    host.offer(1, base::StackOffer::offered);
    CHECK(host.questions.ask(0b010, kNow + 60 * kSecond));
    CHECK(host.control->stack_of(1).asked.load() == 0);
    const std::string text = host.questions.text_of(1, child.pid(), kNow + 60 * kSecond);
    CHECK(text.starts_with("stack: it could not be read: the rank's background thread does not run"));
    CHECK(text.find('\n') == std::string::npos);
    CHECK_FALSE(base::has_stack(text));
}

TEST_CASE("a rank that refuses says why", "[stacks]") {
    Host host;
    host.control->stack_of(2).text.write("stack: the program handles SIGUSR2 itself");
    host.offer(2, base::StackOffer::refused);
    CHECK(host.questions.ask(0b100, kNow));
    CHECK(host.questions.text_of(2, getpid(), kNow) == "stack: the program handles SIGUSR2 itself");
}

TEST_CASE("requested stacks of a host are one text", "[stacks]") {
    Host host;
    host.offer(0, base::StackOffer::offered);
    host.offer(1, base::StackOffer::offered);
    RequestedStacks requested(host.blocks, 2, 2 * kSecond);
    CHECK_FALSE(requested.look(false, kNow));
    CHECK(host.control->stack_of(0).asked.load() == 0);
    CHECK_FALSE(requested.look(true, kNow));
    host.answer(0, "native:\n  f");
    CHECK_FALSE(requested.look(false, kNow));
    host.answer(1, "native:\n  g");
    const std::optional<std::string> text = requested.look(false, kNow);
    REQUIRE(text);
    const std::string pid = std::to_string(getpid());
    CHECK(*text ==
          "the stacks of the main threads of all ranks of this host, as requested by a signal:\n  rank 0 (pid " + pid +
              "):\n    native:\n      f\n  rank 1 (pid " + pid + "):\n    native:\n      g");
    CHECK_FALSE(requested.look(false, kNow));
}

TEST_CASE("the responder answers with the stack of the main thread", "[stacks]") {
    const InstalledHandler handler;
    Host host;
    base::StackBlock& block = host.control->stack_of(1);
    StackResponder responder(block);
    for (std::uint32_t question = 1; question <= 3; ++question) {
        block.asked.store(question);
        std::atomic<bool> done{false};
        std::thread background([&] {
            while (block.answered.load(std::memory_order_acquire) != question) {
                responder.look();
                std::this_thread::sleep_for(std::chrono::milliseconds(1));
            }
            done.store(true);
        });
        sleep_until(done);
        background.join();
        const std::string text = block.text.read();
        INFO(text);
        CHECK(text.find("native, innermost first") != std::string::npos);
        // The capture may happen before the thread sleeps, so the test expects only the outermost function.
        CHECK(text.find("\n  main") != std::string::npos);
    }
    responder.stop();
}

TEST_CASE("the end of a job does not wait for ever for names", "[stacks]") {
    const InstalledHandler handler;
    Host host;
    base::StackBlock& block = host.control->stack_of(1);
    block.text.write("before");
    block.asked.store(1);
    struct State {
        std::atomic<bool> begun{false};
        std::atomic<bool> may_end{false};
    };
    const auto state = std::make_shared<State>();
    const auto describe = [state](const Result<RawStack>&) {
        state->begun.store(true);
        while (!state->may_end.load()) {
            std::this_thread::sleep_for(std::chrono::milliseconds(1));
        }
        return std::string("late");
    };
    std::atomic<bool> done{false};
    std::thread background([&] {
        const auto begin = std::chrono::steady_clock::now();
        {
            StackResponder responder(block, describe);
            responder.look();
            while (!state->begun.load()) {
                std::this_thread::sleep_for(std::chrono::milliseconds(1));
            }
        }
        const auto took = std::chrono::steady_clock::now() - begin;
        CHECK(took >= StackResponder::kPatience);
        CHECK(took < StackResponder::kPatience + std::chrono::seconds(20));
        done.store(true);
    });
    sleep_until(done);
    background.join();
    state->may_end.store(true);
    while (state.use_count() > 2) {  // this loop waits for the end of the extra thread
        std::this_thread::sleep_for(std::chrono::milliseconds(1));
    }
    CHECK(block.text.read() == "before");
    CHECK(block.answered.load() == 0);
}

}  // namespace rueda::core::test
