// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The Rueda authors
#include <catch2/catch.hpp>

#include "base/shared_memory/attention.hpp"
#include "base/shared_memory/local_event.hpp"
#include "tests/core/interleavings/explored_set.hpp"

/// Who drives a rank: core/engine/engine.cpp with the same operations in the same order, over a set that only counts.
/// No timeouts: what a slow timer would repair is a deadlock here.
namespace rueda::core::test {
namespace {

using base::AttentionState;
using Word = ExploredAtomics::Atomic<std::uint32_t>;

constexpr std::uint32_t kOperations = 3;
constexpr auto kAnyTime = std::chrono::nanoseconds(1);

enum class Turn { idle, advanced };

/// What is left out of it on purpose, to be found.
struct Faults {
    bool no_second_look = false;           ///< at pending(), after the progress lock was released
    bool no_look_at_log = false;           ///< by who leaves, after he wrote his attention
    bool no_turned_away = false;           ///< the background thread does not say that it found the progress lock taken
    bool no_look_for_turned_away = false;  ///< attend() takes "asleep" for handed on, whoever was turned away since
    bool ring_before_release = false;
    bool no_look_after_poll = false;  ///< poll() does not care whom it turned away
};

class Model {
public:
    Model() {
        explorer::label(&pending_, "pending");
        explorer::label(&progress_lock_, "progress lock");
        explorer::label(&waiters_, "waiters");
        explorer::label(&turned_away_, "turned_away");
        explorer::label(&stopping_, "stopping");
        explorer::label(&tail_, "tail");
        explorer::label(&next_, "next");
        for (std::uint32_t i = 0; i < kOperations; ++i) {
            explorer::label(&submitted_[i], "submitted", static_cast<int>(i));
            explorer::label(&log_[i], "log", static_cast<int>(i));
            explorer::label(&done_[i], "done", static_cast<int>(i));
        }
    }

    // ---- callers ----

    /// ProcessSet::submit(), where another rank arrives last.
    void submit(std::uint32_t operation) {
        pending_.fetch_add(1, std::memory_order_seq_cst);
        submitted_[operation].store(1, std::memory_order_release);
    }
    /// ... where this rank arrives last: append_call() and announced_more().
    void submit_last(std::uint32_t operation, bool blocking) {
        pending_.fetch_add(1, std::memory_order_seq_cst);
        publish(operation);
        const AttentionState state = attention_.state();
        if (state == AttentionState::blocked || (state == AttentionState::asleep && !blocking)) {
            attention_.ring(state);
        }
    }
    void attend() {
        const bool handed_on = attention_.state() != AttentionState::awake &&
                               (faults.no_look_for_turned_away || turned_away_.load(std::memory_order_seq_cst) == 0);
        if (pending() > 0 && !handed_on && try_lock_progress()) {
            leave();
        }
    }
    /// With `looked`, from the moment when it has seen that the operation is not done.
    void wait(std::uint32_t operation, bool looked = false) {
        const auto done = [=, this] { return is_done(operation); };
        for (; looked || !done(); looked = false) {
            if (try_lock_progress()) {
                drive(done);
                leave();
            } else {
                wait_for_progress_lock(done);
            }
        }
        attend();
    }
    void poll() {
        if (attention_.background_is_rung() || !try_lock_progress()) {
            return;
        }
        const AttentionState before = attention_.state();
        while (turn() == Turn::advanced) {
        }
        if (before != AttentionState::asleep || pending() == 0) {
            leave();
            return;
        }
        unlock_progress();
        event_.notify();
        if (!faults.no_look_after_poll && turned_away_.load(std::memory_order_seq_cst) != 0) {
            attention_.ring(AttentionState::asleep);
        }
    }
    /// A caller who asks in a loop whether an operation is done.
    void poll_until_done(std::uint32_t operation) {
        for (poll(); !is_done(operation); poll()) {
            ExploredAtomics::pause();
        }
    }
    /// For a caller that relies on the others of the rank.
    void look_on(std::uint32_t operation) {
        while (!is_done(operation)) {
            ExploredAtomics::pause();
        }
    }
    void stop() {
        stopping_.store(1, std::memory_order_seq_cst);
        attention_.ring_all();
    }

    // ---- another rank ----

    /// The last arriver of another rank, who also starts the batch: append_call(), announced_more(), run_batch().
    void call(std::uint32_t operation) {
        while (submitted_[operation].load(std::memory_order_acquire) == 0) {
            ExploredAtomics::pause();
        }
        publish(operation);
        if (const AttentionState state = attention_.state(); state == AttentionState::blocked) {
            attention_.ring(state);
        }
        if (const AttentionState state = attention_.state(); state != AttentionState::awake) {
            attention_.ring(state);
        }
    }

    // ---- the background thread ----

    void run_background() {
        while (stopping_.load(std::memory_order_seq_cst) == 0) {
            background_turns();
        }
    }

    [[nodiscard]] std::uint32_t pending() const { return pending_.load(std::memory_order_seq_cst); }
    Faults faults;

private:
    void publish(std::uint32_t operation) {
        const std::uint32_t position = tail_.fetch_add(1, std::memory_order_relaxed);
        log_[position].store(operation + 1, std::memory_order_seq_cst);
    }
    [[nodiscard]] bool is_done(std::uint32_t operation) const {
        return done_[operation].load(std::memory_order_seq_cst) != 0;
    }
    [[nodiscard]] std::uint32_t published() const {
        const std::uint32_t next = next_.read();
        return next < kOperations ? log_[next].load(std::memory_order_seq_cst) : 0;
    }

    bool try_lock_progress() {
        std::uint32_t expected = 0;
        return progress_lock_.load(std::memory_order_seq_cst) == 0 &&
               progress_lock_.compare_exchange_strong(expected, 1, std::memory_order_seq_cst);
    }
    void unlock_progress() { progress_lock_.store(0, std::memory_order_seq_cst); }

    Turn turn() {
        const std::uint32_t called = published();
        if (called == 0) {
            return Turn::idle;
        }
        next_.write(next_.read() + 1);
        pending_.fetch_sub(1, std::memory_order_seq_cst);
        done_[called - 1].fetch_add(1, std::memory_order_seq_cst);
        event_.notify();
        return Turn::advanced;
    }

    template <class Done>
    void drive(Done&& done) {
        attention_.set(AttentionState::awake);
        while (!done()) {
            if (turn() != Turn::advanced && !done()) {
                sleep_as_caller(done);
            }
        }
    }
    template <class Done>
    void sleep_as_caller(Done&& done) {
        const std::uint32_t ticket = attention_.caller_ticket();
        attention_.set(AttentionState::blocked);
        if (turn() != Turn::advanced && !done()) {
            attention_.sleep_as_caller(ticket, kAnyTime);
        }
        attention_.set(AttentionState::awake);
    }

    void leave() {
        for (;;) {
            const bool to_background = pending() > 0 && waiters_.load(std::memory_order_seq_cst) == 0;
            attention_.set(to_background ? AttentionState::asleep : AttentionState::awake);
            const bool work_left = !faults.no_look_at_log && to_background && published() != 0;
            if (faults.ring_before_release && work_left) {
                attention_.ring(AttentionState::asleep);
            }
            unlock_progress();
            event_.notify();
            if (!faults.ring_before_release && to_background &&
                (work_left || turned_away_.load(std::memory_order_seq_cst) != 0)) {
                attention_.ring(AttentionState::asleep);
            }
            const bool unattended = !faults.no_second_look && pending() > 0 &&
                                    waiters_.load(std::memory_order_seq_cst) == 0 &&
                                    attention_.state() == AttentionState::awake;
            if (!unattended || !try_lock_progress()) {
                return;
            }
        }
    }

    template <class Done>
    void wait_for_progress_lock(Done&& done) {
        waiters_.fetch_add(1, std::memory_order_seq_cst);
        const auto ready = [&] { return done() || progress_lock_.load(std::memory_order_seq_cst) == 0; };
        if (!ready()) {
            event_.wait(ready, kAnyTime);
        }
        waiters_.fetch_sub(1, std::memory_order_seq_cst);
    }

    void background_turns() {
        const std::uint32_t ticket = attention_.background_ticket();
        if (waiters_.load(std::memory_order_seq_cst) > 0 || !try_lock_progress()) {
            turned_away_.store(faults.no_turned_away ? 0 : 1, std::memory_order_seq_cst);
            const bool taken =
                progress_lock_.load(std::memory_order_seq_cst) != 0 || waiters_.load(std::memory_order_seq_cst) > 0;
            if (taken && stopping_.load(std::memory_order_seq_cst) == 0) {
                attention_.sleep_as_background(ticket, kAnyTime);
            }
            turned_away_.store(0, std::memory_order_seq_cst);
            return;
        }
        attention_.set(AttentionState::awake);
        Turn last = Turn::idle;
        while (waiters_.load(std::memory_order_seq_cst) == 0 && stopping_.load(std::memory_order_relaxed) == 0) {
            last = turn();
            if (last != Turn::advanced) {
                break;
            }
        }
        sleep_in_background(last);
    }
    void sleep_in_background(Turn last) {
        AttentionState state = AttentionState::awake;
        if (pending() > 0) {
            state = AttentionState::asleep;
        }
        const std::uint32_t ticket = attention_.background_ticket();
        attention_.set(state);
        const Turn look = turn();
        const bool nothing_new = look != Turn::advanced && (look == last || look == Turn::idle);
        const bool sleeps = nothing_new && waiters_.load(std::memory_order_seq_cst) == 0;
        if (!sleeps) {
            attention_.set(AttentionState::awake);
        }
        unlock_progress();
        event_.notify();
        const bool unattended = !faults.no_second_look && state == AttentionState::awake && pending() > 0;
        if (sleeps && !unattended && stopping_.load(std::memory_order_seq_cst) == 0) {
            attention_.sleep_as_background(ticket, kAnyTime);
        }
    }

    base::Attention<ExploredAtomics> attention_;
    base::BasicLocalEvent<ExploredAtomics> event_;
    Word progress_lock_;
    Word waiters_;
    Word turned_away_;
    Word pending_;
    Word stopping_;
    Word tail_;
    std::array<Word, kOperations> submitted_;
    std::array<Word, kOperations> log_;
    std::array<Word, kOperations> done_;
    ExploredPlain<std::uint32_t> next_;  ///< of whoever holds the progress lock: a race is two who do
};

using Bodies = std::vector<std::function<void(Model&)>>;

struct Scenario {
    std::function<void(Model&)> before = [](Model&) {};
    Bodies threads;
};

Exploration run(const Scenario& scenario, const Options& options, const Faults& faults = {}) {
    return explore<Model>(
        [&](Model& model) {
            model.faults = faults;
            scenario.before(model);
        },
        scenario.threads, [](Model& model) { RUEDA_EXPLORER_REQUIRE(model.pending() == 0); }, options);
}

void background(Model& model) { model.run_background(); }

Scenario asynchronous_last() {
    return {.threads = {[](Model& model) {
                            model.submit_last(0, /*blocking=*/false);
                            model.attend();
                            model.look_on(0);
                            model.stop();
                        },
                        background}};
}
Scenario asynchronous() {
    return {.threads = {[](Model& model) {
                            model.submit(0);
                            model.attend();
                            model.look_on(0);
                            model.stop();
                        },
                        background, [](Model& model) { model.call(0); }}};
}
/// A caller submits one operation, and drives until another one is done.
Scenario left_behind() {
    return {.threads = {[](Model& model) {
                            model.submit(0);
                            model.attend();
                            model.submit_last(1, /*blocking=*/true);
                            model.wait(1);
                            model.look_on(0);
                            model.stop();
                        },
                        background, [](Model& model) { model.call(0); }}};
}
/// The same from the moment when both are submitted and the caller has looked: as good as two preemptions more.
Scenario about_to_wait() {
    return {.before =
                [](Model& model) {
                    model.submit(0);
                    model.attend();
                    model.submit_last(1, /*blocking=*/true);
                },
            .threads = {[](Model& model) {
                            model.wait(1, /*looked=*/true);
                            model.look_on(0);
                            model.stop();
                        },
                        background, [](Model& model) { model.call(0); }}};
}
/// Two callers, and an operation that nobody waits for.
Scenario two_callers() {
    return {.threads = {[](Model& model) {
                            model.submit(0);
                            model.attend();
                            model.submit_last(1, /*blocking=*/true);
                            model.wait(1);
                            model.look_on(0);
                            model.look_on(2);
                            model.stop();
                        },
                        [](Model& model) {
                            model.submit_last(2, /*blocking=*/true);
                            model.wait(2);
                        },
                        background, [](Model& model) { model.call(0); }}};
}

TEST_CASE("an operation that nobody waits for is driven by the background thread", "[unit]") {
    for (const Orders memory : {Orders::sequentially_consistent, Orders::store_buffers}) {
        const auto result = run(asynchronous_last(), {.memory = memory});
        INFO(result.report);
        CHECK(result.passed());
        REQUIRE(result.exhausted);
    }
}

// From here on with a bound of two preemptions, or one where four threads run.
TEST_CASE("the same, called by another rank", "[unit]") {
    const auto result = run(asynchronous(), {.preemptions = 2});
    INFO(result.report);
    CHECK(result.passed());
}

TEST_CASE("a caller that leaves hands on what is left", "[unit]") {
    const auto result = run(left_behind(), {.preemptions = 2});
    INFO(result.report);
    CHECK(result.passed());
}

TEST_CASE("a caller that finds its own work done by the background thread hands on the rest", "[unit]") {
    const auto result = run(about_to_wait(), {.preemptions = 2});
    INFO(result.report);
    CHECK(result.passed());
}

TEST_CASE("two callers, one of whom may find that the other did his work", "[unit]") {
    const auto result = run(two_callers(), {.preemptions = 1});
    INFO(result.report);
    CHECK(result.passed());
}

/// A caller looks twice, and then no more.
Scenario polled() {
    return {.threads = {[](Model& model) {
                            model.submit(0);
                            model.attend();
                            model.poll();
                            model.poll();
                            model.look_on(0);
                            model.stop();
                        },
                        background, [](Model& model) { model.call(0); }}};
}
/// The same from the moment when the background thread has been left alone with the operation.
Scenario polled_asleep() {
    return {.before =
                [](Model& model) {
                    model.submit(0);
                    model.attend();
                },
            .threads = {[](Model& model) {
                            model.poll();
                            model.look_on(0);
                            model.stop();
                        },
                        background, [](Model& model) { model.call(0); }}};
}
/// He asks until one operation is done, and leaves another.
Scenario polled_until_done() {
    return {.before =
                [](Model& model) {
                    model.submit(0);
                    model.attend();
                },
            .threads = {[](Model& model) {
                            model.submit_last(1, /*blocking=*/false);
                            model.attend();
                            model.poll_until_done(1);
                            model.look_on(0);
                            model.stop();
                        },
                        background, [](Model& model) { model.call(0); }}};
}

TEST_CASE("a caller that only looks leaves nothing undone", "[unit]") {
    for (const Scenario& scenario : {polled(), polled_asleep(), polled_until_done()}) {
        const auto result = run(scenario, {.preemptions = 2});
        INFO(result.report);
        CHECK(result.passed());
    }
}

TEST_CASE("every part of the hand-over is needed", "[unit]") {
    const auto deadlocks = [](const Scenario& scenario, const Faults& faults) {
        return run(scenario, {.preemptions = 2}, faults).failure == Failure::deadlock;
    };
    CHECK(deadlocks(asynchronous(), {.no_second_look = true}));
    CHECK(deadlocks(left_behind(), {.no_look_at_log = true}));
    CHECK(deadlocks(left_behind(), {.ring_before_release = true}));
    CHECK(deadlocks(left_behind(), {.no_turned_away = true}));
    CHECK(deadlocks(about_to_wait(), {.no_look_for_turned_away = true}));
    CHECK(deadlocks(polled_asleep(), {.no_look_after_poll = true}));
}

}  // namespace
}  // namespace rueda::core::test
