// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The Rueda authors
// Tests how Rueda handles SIGTERM. termination_test.py tests what it prints under mpirun.
#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#include <catch2/catch.hpp>

#include "rueda/rueda.hpp"
#include "tests/conformance/public_ranks.hpp"
#include "tests/support/check_passed.hpp"

namespace rueda::tests {
namespace {

volatile sig_atomic_t handled = 0;
void handle(int /*number*/) { handled = handled + 1; }
void handle_with_information(int /*number*/, siginfo_t* info, void* /*context*/) {
    handled = info->si_pid == ::getpid() ? handled + 1 : -1;
}

struct sigaction disposition() {
    struct sigaction found {};
    ::sigaction(SIGTERM, nullptr, &found);
    return found;
}

TEST_CASE("SIGTERM reaches the program's handler, as often as it comes", "[processes]") {
    const bool with_information = GENERATE(false, true);
    check_passed(run_public_ranks(2, [&](RankContext&) {
        struct sigaction own {};
        own.sa_flags = with_information ? SA_SIGINFO : 0;
        if (with_information) {
            own.sa_sigaction = &handle_with_information;
        } else {
            own.sa_handler = &handle;
        }
        ::sigaction(SIGTERM, &own, nullptr);
        for (int job = 1; job <= 2; ++job) {
            rueda::init();
            ::raise(SIGTERM);
            RUEDA_RANK_EQUAL(static_cast<int>(handled), 2 * job - 1);
            rueda::barrier();  // the barrier shows that the signal has not ended the job
            rueda::shutdown();
            RUEDA_RANK_CHECK(disposition().sa_handler == own.sa_handler);
            RUEDA_RANK_EQUAL(disposition().sa_flags & SA_SIGINFO, own.sa_flags);
            ::raise(SIGTERM);
            RUEDA_RANK_EQUAL(static_cast<int>(handled), 2 * job);
        }
    }));
}

TEST_CASE("a handler installed later stays", "[processes]") {
    check_passed(run_public_ranks(1, [](RankContext&) {
        rueda::init();
        struct sigaction own {};
        own.sa_handler = &handle;
        struct sigaction ours {};
        ::sigaction(SIGTERM, &own, &ours);
        RUEDA_RANK_CHECK(ours.sa_handler != SIG_DFL);
        rueda::shutdown();
        rueda::init();
        ::raise(SIGTERM);
        RUEDA_RANK_EQUAL(static_cast<int>(handled), 1);
        rueda::shutdown();
        RUEDA_RANK_CHECK(disposition().sa_handler == &handle);
    }));
}

TEST_CASE("SIGTERM that is ignored stays so", "[processes]") {
    check_passed(run_public_ranks(1, [](RankContext&) {
        ::signal(SIGTERM, SIG_IGN);
        rueda::init();
        RUEDA_RANK_CHECK(disposition().sa_handler == SIG_IGN);
        ::raise(SIGTERM);
        rueda::shutdown();
        RUEDA_RANK_CHECK(disposition().sa_handler == SIG_IGN);
    }));
}

/// The child is like a data loader's worker, which SIGTERM ends after every epoch. The child must end as if Rueda were
/// not loaded, and the ranks must not notice its end.
TEST_CASE("SIGTERM ends a forked child", "[processes]") {
    check_passed(run_public_ranks(2, [](RankContext&) {
        rueda::init();
        const pid_t child = ::fork();
        if (child == 0) {
            for (;;) {
                ::pause();
            }
        }
        ::kill(child, SIGTERM);
        int status = 0;
        RUEDA_RANK_EQUAL(::waitpid(child, &status, 0), child);
        RUEDA_RANK_CHECK(WIFSIGNALED(status) && WTERMSIG(status) == SIGTERM);
        rueda::barrier();
        rueda::shutdown();
        RUEDA_RANK_CHECK(disposition().sa_handler == SIG_DFL);
    }));
}

/// Only this rank ends, so the error on the other rank must name this rank as the cause.
TEST_CASE("SIGTERM ends a rank, which leaves its end reason", "[processes]") {
    const RanksResult result = run_public_ranks(2, [](RankContext& context) {
        ::setenv("RUEDA_LOG_LEVEL", "off", 1);
        rueda::init();
        if (context.rank() == 1) {
            ::raise(SIGTERM);
        }
        try {
            rueda::barrier();
        } catch (const Aborted& error) {
            context.report("text", std::string(error.what()));
        }
        rueda::shutdown();
    });
    INFO(result.text());
    CHECK(result.ranks[1].end == RankEnd::killed);
    CHECK(result.ranks[1].signal == SIGTERM);
    REQUIRE(result.ranks[0].end == RankEnd::returned);
    const std::string& text = result.ranks[0].value("text");
    CHECK(text.substr(text.find(")")) == ") died: ended by SIGTERM");
}

}  // namespace
}  // namespace rueda::tests
