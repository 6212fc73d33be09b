// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The Rueda authors
// Tests that each completion callback is called exactly once, with the final status of its operation, in every order of
// events.
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <catch2/catch.hpp>
#include <condition_variable>
#include <future>
#include <memory>
#include <mutex>
#include <stdexcept>
#include <string>
#include <thread>
#include <vector>

#include "core/pending/callback_thread.hpp"
#include "core/pending/completion_call.hpp"
#include "rueda/rueda.hpp"
#include "tests/conformance/jobs.hpp"
#include "tests/conformance/public_ranks.hpp"
#include "tests/conformance/runtime_client.hpp"
#include "tests/conformance/scenarios.hpp"
#include "tests/conformance/values.hpp"
#include "tests/support/check_passed.hpp"

namespace rueda::tests {
namespace {

using core::CallbackThread;

/// Counts the callbacks for which a test still waits. Any thread may use it.
class Countdown {
public:
    explicit Countdown(int from) : left_(from) {}
    void one() {
        const std::lock_guard lock(mutex_);
        --left_;
        changed_.notify_all();
    }
    void wait() {
        std::unique_lock lock(mutex_);
        changed_.wait(lock, [this] { return left_ <= 0; });
    }

private:
    std::mutex mutex_;
    std::condition_variable changed_;
    int left_;
};

/// An operation with a callback. It has what the Runtime uses of a handle, but works without the C interface. So the
/// ranks of a test can be threads.
struct Operation final : core::Completion, core::CompletionCall {
    explicit Operation(CallbackThread& thread) : Completion(1, &end), calls(thread) {}
    static void end(Completion& completion) {
        auto& operation = static_cast<Operation&>(completion);
        if (operation.take_at_end()) {
            operation.calls.hand_over(operation);
        }
        // This store must be the last access to the object (memory order release), because the test frees the object
        // when it sees the value.
        operation.ended.store(true, std::memory_order_release);
    }
    void call() noexcept override { called.fetch_add(1, std::memory_order_relaxed); }

    CallbackThread& calls;
    std::atomic<int> called{0};
    std::atomic<bool> ended{false};
};

/// Several threads of each rank register callbacks, while any thread may complete an operation.
TEST_CASE("every callback is called once, as threads", "[threads]") {
    check_passed(run_clients(GENERATE(1, 2, 4), test_config(), [](RankContext&, RuntimeClient& client) {
        constexpr int kOperations = 200;
        constexpr int kThreads = 2;
        core::Runtime& runtime = client.runtime();
        std::vector<std::unique_ptr<Operation>> operations;
        std::vector<float> values(kOperations * kThreads, 1);
        for (int i = 0; i < kOperations * kThreads; ++i) {
            operations.push_back(std::make_unique<Operation>(runtime.callbacks()));
        }
        const auto ask = [&](int first) {
            for (int i = first; i < kOperations * kThreads; i += kThreads) {
                Operation& operation = *operations[static_cast<std::size_t>(i)];
                const std::int64_t extent = 1;
                const rueda_tensor tensor{&values[static_cast<std::size_t>(i)], &extent, 1, RUEDA_FLOAT32};
                const rueda_options options = RUEDA_OPTIONS_INIT;
                expect_ok(runtime.start(runtime.world(), nullptr, "a" + std::to_string(i),
                                        {.operation = collectives::Operation::allreduce, .in = &tensor, .out = &tensor},
                                        options, operation),
                          "start");
                if (i % 3 == 0) {
                    expect_ok(runtime.wait(operation, -1), "wait");
                }
                RUEDA_RANK_CHECK(operation.claim() && !operation.claim());
                if (operation.done()) {
                    operation.call();
                    continue;
                }
                expect_ok(runtime.callbacks().start(), "the thread");
                if (!operation.arm(operation)) {
                    operation.call();
                }
            }
        };
        auto other = std::async(std::launch::async, ask, 1);
        ask(0);
        other.get();
        for (const auto& operation : operations) {
            expect_ok(runtime.wait(*operation, -1), "the end");
        }
        expect_ok(client.shutdown(), "shutdown");
        for (const auto& operation : operations) {
            RUEDA_RANK_EQUAL(operation->called.load(), 1);
            RUEDA_RANK_CHECK(operation->ended.load(std::memory_order_acquire));
            RUEDA_RANK_CHECK(operation->status().is_ok());
        }
        RUEDA_RANK_CHECK(runtime.callbacks().start().code() == ErrorCode::not_initialized);
    }));
}

/// A queued call that appends its number to a list.
struct Numbered final : core::QueuedCall {
    std::vector<int>* order = nullptr;
    int number = 0;
    void call() noexcept override { order->push_back(number); }
};

TEST_CASE("calls come in the order in which they were handed over, and none is lost at the end", "[threads]") {
    for (int round = 0; round < 50; ++round) {
        CallbackThread thread;
        std::vector<int> order;
        std::vector<Numbered> calls(100);
        REQUIRE(thread.start().is_ok());
        for (int i = 0; i < 100; ++i) {
            calls[static_cast<std::size_t>(i)].order = &order;
            calls[static_cast<std::size_t>(i)].number = i;
            if (i == 99) {
                thread.stop();  // the callback thread has stopped, so from now on hand_over() makes the calls itself
            }
            thread.hand_over(calls[static_cast<std::size_t>(i)]);
        }
        REQUIRE(order.size() == 100);
        CHECK(std::is_sorted(order.begin(), order.end()));
    }
}

/// Uses the public interface in a job of one rank. The operations complete on the background thread.
TEST_CASE("callbacks of handles that are gone, from several threads", "[threads]") {
    rueda::init();
    constexpr int kOperations = 300;
    std::atomic<int> sum{0};
    const auto body = [&](int thread) {
        std::vector<float> values(kOperations, 1);
        Countdown left(kOperations);
        for (int i = 0; i < kOperations; ++i) {
            const std::string name = std::to_string(thread) + "." + std::to_string(i);
            rueda::allreduce_async(name, std::span(&values[static_cast<std::size_t>(i)], 1))
                .on_completion([&, i](std::exception_ptr failure) {
                    sum.fetch_add(failure == nullptr ? i : 1'000'000, std::memory_order_relaxed);
                    left.one();
                });
        }
        left.wait();
    };
    std::thread first(body, 1);
    std::thread second(body, 2);
    first.join();
    second.join();
    CHECK(sum.load() == kOperations * (kOperations - 1));
    rueda::shutdown();
}

std::string text_of(const std::exception_ptr& failure) {
    try {
        if (failure) {
            std::rethrow_exception(failure);
        }
        return "";
    } catch (const Mismatch& error) {
        return std::string("Mismatch: ") + error.what();
    } catch (const Aborted& error) {
        return std::string("Aborted: ") + error.what();
    } catch (const Error& error) {
        return std::string("another error: ") + error.what();
    }
}

/// The arguments that a callback received, and the thread that called the callback.
struct Told {
    std::string text;
    std::thread::id thread;
};
std::future<Told> told_of(const Handle& handle) {
    auto promise = std::make_shared<std::promise<Told>>();
    auto future = promise->get_future();
    handle.on_completion([promise](const std::exception_ptr& failure) {
        promise->set_value({text_of(failure), std::this_thread::get_id()});
    });
    return future;
}

void success_and_failure(RankContext& context) {
    rueda::init();
    const auto self = std::this_thread::get_id();
    std::vector<float> values(1000, 1);
    if (context.rank() == 0) {
        // The callback is registered before the other ranks start the operation. Therefore a thread of Rueda calls the
        // callback.
        const Handle late = rueda::allreduce_async("late", std::span(values), {.op = ReduceOp::sum});
        auto told = told_of(late);
        context.phase("asked");
        const Told found = told.get();
        RUEDA_RANK_EQUAL(found.text, std::string());
        RUEDA_RANK_CHECK(found.thread != self);
        late.wait();
        RUEDA_RANK_EQUAL(values[999], 2.0F);
    } else {
        context.wait_for_phase(0, "asked");
        const Handle handle = rueda::allreduce_async("late", std::span(values), {.op = ReduceOp::sum});
        handle.wait();
        // The operation has ended before the callback is registered, so this thread calls the callback at once.
        RUEDA_RANK_CHECK(told_of(handle).get().thread == self);
        bool refused = false;
        try {
            handle.on_completion([](const std::exception_ptr&) { std::abort(); });
        } catch (const InvalidArgument& error) {
            refused = std::string(error.what()).find("has a completion callback already") != std::string::npos;
        }
        RUEDA_RANK_CHECK(refused);
    }
    std::vector<float> unlike(static_cast<std::size_t>(context.rank() + 1), 1);
    const std::string text = told_of(rueda::allreduce_async("unlike", std::span(unlike))).get().text;
    RUEDA_RANK_CHECK(text.starts_with("Mismatch: ") && text.find("'unlike'") != std::string::npos);
    rueda::shutdown();
}

TEST_CASE("a callback receives the final status of its operation", "[processes]") {
    check_passed(run_public_ranks(2, success_and_failure));
}

/// Callbacks may start operations whose callbacks start further operations. But a callback must not wait.
void chain_and_wait(RankContext& context) {
    rueda::init();
    float value = 1;
    Countdown done(1);
    std::string refusals;
    std::function<void(int)> next = [&](int step) {
        rueda::allreduce_async("step" + std::to_string(step), std::span(&value, 1), {.op = ReduceOp::sum})
            .on_completion([&, step](const std::exception_ptr& failure) {
                RUEDA_RANK_CHECK(failure == nullptr);
                if (step < 9) {
                    next(step + 1);
                    return;
                }
                const auto refused = [&](auto&& call) {
                    try {
                        call();
                        refusals += "not ";
                    } catch (const InvalidArgument& error) {
                        refusals += std::string(error.what()).starts_with("a completion callback called") ? "" : "?";
                    }
                    refusals += "refused ";
                };
                refused([&] { rueda::allreduce("blocking", std::span(&value, 1)); });
                refused([&] { rueda::barrier(); });
                refused([&] { rueda::send(std::span(&value, 1), 0); });
                refused([&] { rueda::receive(std::span(&value, 1), 0); });
                refused([&] { rueda::join(); });
                refused([&] { rueda::shutdown(); });
                const Handle pending = rueda::allreduce_async("pending", std::span(&value, 1), {.op = ReduceOp::sum});
                refused([&] { pending.wait(); });
                pending.on_completion([&](const std::exception_ptr&) { done.one(); });
            });
    };
    next(0);
    context.phase("started");
    done.wait();
    RUEDA_RANK_EQUAL(refusals, std::string("refused refused refused refused refused refused refused "));
    // There were 11 allreduces. Each allreduce doubled the value, because it added the equal values of two ranks. The
    // next allreduce shows that no refused operation is still pending.
    RUEDA_RANK_EQUAL(value, 2048.0F);
    rueda::allreduce("after", std::span(&value, 1), {.op = ReduceOp::max});
    rueda::shutdown();
}

/// Tests whether the error text stays valid after a callback has released its own handle.
struct Released {
    rueda_handle* handle = nullptr;
    std::string before;
    std::string after;
    int called = 0;
};
void release_and_read(int /*status*/, const char* message, void* data) {
    auto& released = *static_cast<Released*>(data);
    ++released.called;
    released.before = message;
    rueda_handle_release(released.handle);
    // Allocates the freed memory again and overwrites it, so that a dangling text would change.
    std::vector<std::unique_ptr<char[]>> others;
    for (std::size_t bytes = 16; bytes <= 1024; bytes += 16) {
        for (int i = 0; i < 4; ++i) {
            others.push_back(std::make_unique<char[]>(bytes));
            std::fill_n(others.back().get(), bytes, 'Z');
        }
    }
    released.after = message;
}

TEST_CASE("a callback that is called at once may release its handle, still read the error text, and throw",
          "[processes]") {
    check_passed(run_public_ranks(2, [](RankContext& context) {
        rueda::init();
        float values[2] = {1, 1};
        // The extents differ between the two ranks, so the operation fails.
        const std::int64_t extent = context.rank() + 1;
        const rueda_tensor tensor{values, &extent, 1, RUEDA_FLOAT32};
        Released released;
        RUEDA_RANK_CHECK(rueda_allreduce_async("x", &tensor, &tensor, nullptr, &released.handle) == RUEDA_OK);
        RUEDA_RANK_CHECK(rueda_wait(released.handle, -1) == RUEDA_MISMATCH);
        const std::string told = rueda_last_error();
        RUEDA_RANK_CHECK(rueda_handle_on_completion(released.handle, release_and_read, &released) == RUEDA_OK);
        RUEDA_RANK_EQUAL(released.called, 1);
        RUEDA_RANK_EQUAL(released.before, told);
        RUEDA_RANK_EQUAL(released.after, told);

        rueda_handle* thrown = nullptr;
        RUEDA_RANK_CHECK(rueda_allreduce_async("x", &tensor, &tensor, nullptr, &thrown) == RUEDA_OK);
        RUEDA_RANK_CHECK(rueda_wait(thrown, -1) == RUEDA_MISMATCH);
        const auto release_and_throw = [](int, const char*, void* data) {
            rueda_handle_release(static_cast<rueda_handle*>(data));
            // Rueda logs the exception although the callback has released the handle
            throw std::runtime_error("of the test");
        };
        RUEDA_RANK_CHECK(rueda_handle_on_completion(thrown, release_and_throw, thrown) == RUEDA_OK);
        rueda::shutdown();
    }));
}

TEST_CASE("a callback may start operations and not wait for them", "[processes]") {
    check_passed(run_public_ranks(2, chain_and_wait));
}

TEST_CASE("a barrier with a handle completes when every rank has come, by whatever form", "[processes]") {
    check_passed(run_public_ranks(3, [](RankContext& context) {
        rueda::init();
        RUEDA_RANK_CHECK(rueda::is_homogeneous());
        if (context.rank() == 2) {
            context.wait_for_phase(0, "pending");
            context.wait_for_phase(1, "pending");
            rueda::barrier();
        } else {
            const Handle all_here = rueda::barrier_async();
            auto told = told_of(all_here);
            RUEDA_RANK_CHECK(!all_here.ready());
            context.phase("pending");
            RUEDA_RANK_EQUAL(told.get().text, std::string());
            all_here.wait();
        }
        rueda::shutdown();
    }));
}

TEST_CASE("an exception of a callback is logged, and the next callback is called", "[processes]") {
    check_passed(run_public_ranks(1, [](RankContext&) {
        rueda::init();
        float value = 1;
        for (const char* name : {"one", "two", "three"}) {
            Countdown called(1);
            rueda::allreduce_async(name, std::span(&value, 1)).on_completion([&](const std::exception_ptr&) {
                called.one();
                throw std::runtime_error("of the test");
            });
            called.wait();
        }
        rueda::shutdown();
    }));
}

TEST_CASE("callbacks of what is pending at a shutdown come before its return", "[processes]") {
    check_passed(run_public_ranks(2, [](RankContext& context) {
        rueda::init();
        float value = 1;
        std::string text = "not called";
        const std::string name = "of rank " + std::to_string(context.rank());
        rueda::allreduce_async(name, std::span(&value, 1)).on_completion([&](const std::exception_ptr& failure) {
            // The sleep makes this callback longer than the rest of the shutdown. The shutdown must wait for the
            // callback.
            std::this_thread::sleep_for(std::chrono::milliseconds(20));
            text = text_of(failure);
        });
        context.phase("pending");
        context.wait_for_phase(1 - context.rank(), "pending");
        rueda::shutdown();
        RUEDA_RANK_CHECK(text.find("shut down") != std::string::npos || text.find("shutdown()") != std::string::npos);
    }));
}

TEST_CASE("every survivor's callbacks receive the death of a rank", "[processes]") {
    const RanksResult result = run_public_ranks(3, [](RankContext& context) {
        rueda::init();
        float value = 1;
        if (context.rank() == 1) {
            context.wait_for_phase(0, "asked");
            context.wait_for_phase(2, "asked");
            context.kill_rank(1, SIGKILL);
        }
        auto told = told_of(rueda::allreduce_async("never", std::span(&value, 1)));
        context.phase("asked");
        const std::string text = told.get().text;
        RUEDA_RANK_CHECK(text.starts_with("Aborted: ") && text.find("rank 1") != std::string::npos);
        rueda::shutdown();
    });
    INFO(result.text());
    CHECK(result.ranks[0].end == RankEnd::returned);
    CHECK(result.ranks[1].end == RankEnd::killed);
    CHECK(result.ranks[2].end == RankEnd::returned);
    CHECK(result.leaks.empty());
}

TEST_CASE("a forked child is refused, and its parent's callbacks are called once", "[processes]") {
    check_passed(run_public_ranks(2, [](RankContext& context) {
        rueda::init();
        float value = 1;
        std::atomic<int> called{0};
        if (context.rank() == 1) {
            context.wait_for_phase(0, "forked");
        }
        const Handle handle = rueda::allreduce_async("x", std::span(&value, 1));
        if (context.rank() == 0) {
            handle.on_completion([&](const std::exception_ptr&) { called.fetch_add(1); });
            float mine = 1;
            rueda_handle* other = nullptr;
            const std::int64_t extent = 1;
            const rueda_tensor tensor{&mine, &extent, 1, RUEDA_FLOAT32};
            RUEDA_RANK_CHECK(rueda_allreduce_async("y", &tensor, &tensor, nullptr, &other) == RUEDA_OK);
            const pid_t child = ::fork();
            if (child == 0) {
                const bool refused =
                    rueda_handle_on_completion(
                        other, [](int, const char*, void*) { ::_exit(3); }, nullptr) == RUEDA_NOT_INITIALIZED;
                ::_exit(refused && called.load() == 0 ? 7 : 1);
            }
            int status = 0;
            RUEDA_RANK_CHECK(::waitpid(child, &status, 0) == child && WIFEXITED(status));
            RUEDA_RANK_EQUAL(WEXITSTATUS(status), 7);
            context.phase("forked");
            RUEDA_RANK_CHECK(rueda_wait(other, -1) == RUEDA_OK);
            rueda_handle_release(other);
        } else {
            rueda::allreduce("y", std::span(&value, 1));
        }
        handle.wait();
        rueda::shutdown();
        RUEDA_RANK_EQUAL(called.load(), context.rank() == 0 ? 1 : 0);
    }));
}

}  // namespace
}  // namespace rueda::tests
