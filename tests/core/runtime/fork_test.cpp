// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The Rueda authors
// Tests forked children. A child has no arena and no engine: its calls must fail, and it must not damage its parent's
// tensors.
#include <sys/wait.h>
#include <unistd.h>

#include <atomic>
#include <catch2/catch.hpp>
#include <csignal>
#include <cstdlib>
#include <fstream>
#include <string>
#include <thread>

#include "rueda/rueda.hpp"
#include "tests/conformance/public_ranks.hpp"
#include "tests/support/check_passed.hpp"

namespace rueda::tests {
namespace {

/// Runs `body` in a forked child. Returns the child's exit status, or 128 plus the number of the signal that killed it.
template <class Body>
int end_of_child(Body&& body) {
    const pid_t child = ::fork();
    if (child == 0) {
        ::_exit(body());
    }
    int status = 0;
    RUEDA_RANK_CHECK(::waitpid(child, &status, 0) == child);
    return WIFSIGNALED(status) ? 128 + WTERMSIG(status) : WEXITSTATUS(status);
}

void reduce_ones(float* values, std::size_t count, float size) {
    std::fill_n(values, count, 1.0F);
    rueda::allreduce("ones", std::span(values, count), {.op = ReduceOp::sum});
    RUEDA_RANK_EQUAL(values[0], size);
    RUEDA_RANK_EQUAL(values[count - 1], size);
}

TEST_CASE("a forked child", "[processes]") {
    check_passed(run_public_ranks(2, [](RankContext& context) {
        constexpr std::size_t kCount = 1 << 18;
        rueda::init();
        auto* const resident = static_cast<float*>(rueda::allocate(kCount * sizeof(float)));
        reduce_ones(resident, kCount, 2);

        context.phase("a child that asks");
        RUEDA_RANK_EQUAL(
            end_of_child([&] {
                float value = 0;
                const std::int64_t extent = 1;
                const rueda_tensor tensor{&value, &extent, 1, RUEDA_FLOAT32};
                int rank = 0;
                const bool refused = rueda_initialized() == 0 && rueda_rank(&rank) == RUEDA_NOT_INITIALIZED &&
                                     rueda_init() == RUEDA_NOT_INITIALIZED &&
                                     rueda_allreduce("ones", &tensor, &tensor, nullptr) == RUEDA_NOT_INITIALIZED &&
                                     rueda_barrier(nullptr) == RUEDA_NOT_INITIALIZED;
                const std::string text = rueda_last_error();
                const bool said = text.find("forked") != std::string::npos;
                return refused && said && rueda_deallocate(resident) == RUEDA_OK && rueda_shutdown() == RUEDA_OK ? 7
                                                                                                                 : 1;
            }),
            7);
        reduce_ones(resident, kCount, 2);

        context.phase("a child that writes");
        std::fill_n(resident, kCount, 3.0F);
        RUEDA_RANK_EQUAL(end_of_child([&] {
                             ::signal(SIGSEGV, SIG_DFL);
                             resident[0] = 4;
                             return 0;
                         }),
                         128 + SIGSEGV);
        for (std::size_t i = 0; i < kCount; ++i) {
            RUEDA_RANK_EQUAL(resident[i], 3.0F);
        }
        reduce_ones(resident, kCount, 2);

        context.phase("a child that exits");
        RUEDA_RANK_EQUAL(end_of_child([]() -> int { std::exit(9); }), 9);
        reduce_ones(resident, kCount, 2);

        context.phase("a child while an operation is pending");
        if (context.rank() == 0) {
            std::fill_n(resident, kCount, 1.0F);
            const rueda::Handle handle =
                rueda::allreduce_async("ones", std::span(resident, kCount), {.op = ReduceOp::sum});
            RUEDA_RANK_EQUAL(end_of_child([] { return 5; }), 5);
            context.phase("child has ended");
            handle.wait();
            RUEDA_RANK_EQUAL(resident[kCount - 1], 2.0F);
        } else {
            context.wait_for_phase(0, "child has ended");
            reduce_ones(resident, kCount, 2);
        }
        rueda::shutdown();
    }));
}

/// Returns the state letter of a thread of this process as in proc(5), for example 'S' while the thread sleeps.
char state_of_thread(pid_t thread) {
    std::ifstream file("/proc/self/task/" + std::to_string(thread) + "/stat");
    std::string text;
    std::getline(file, text);
    const std::size_t name_end = text.rfind(')');
    return name_end == std::string::npos || name_end + 2 >= text.size() ? '?' : text[name_end + 2];
}

TEST_CASE("a child that is forked while its parent shuts down", "[processes]") {
    check_passed(run_public_ranks(2, [](RankContext& context) {
        rueda::init();
        if (context.rank() == 1) {
            context.wait_for_phase(0, "its child has ended");
            rueda::shutdown();
            return;
        }
        std::atomic<pid_t> leaving{0};  // seq_cst, the default memory order, is fast enough here
        std::jthread thread([&] {
            leaving = ::gettid();
            rueda::shutdown();  // waits until rank 1 also shuts down
        });
        while (leaving == 0 || state_of_thread(leaving) != 'S') {
            std::this_thread::yield();
        }
        RUEDA_RANK_EQUAL(end_of_child([] {
                             ::signal(SIGALRM, SIG_DFL);
                             ::alarm(20);
                             return rueda_shutdown() == RUEDA_OK && rueda_init() == RUEDA_NOT_INITIALIZED ? 7 : 1;
                         }),
                         7);
        context.phase("its child has ended");
    }));
}

/// An exit handler of a child. The destructors of thread-local variables run before it, but Rueda's other objects still
/// exist.
void fail_at_exit() {
    int rank = 0;
    const bool failed = rueda_rank(&rank) == RUEDA_NOT_INITIALIZED;
    ::_exit(failed && std::string(rueda_last_error()).find("forked") != std::string::npos ? 7 : 1);
}

TEST_CASE("a call that fails in a handler of exit()", "[processes]") {
    check_passed(run_public_ranks(1, [](RankContext&) {
        rueda::init();
        RUEDA_RANK_EQUAL(end_of_child([]() -> int {
                             int rank = 0;
                             // The call fails and thereby creates this thread's error text.
                             static_cast<void>(rueda_rank(&rank));
                             std::atexit(fail_at_exit);
                             std::exit(1);
                         }),
                         7);
        rueda::shutdown();
    }));
}

}  // namespace
}  // namespace rueda::tests
