// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The Rueda authors
#include "core/engine/progress_lock.hpp"

#include <catch2/catch.hpp>

#include "base/shared_memory/attention.hpp"
#include "core/negotiation/ringing.hpp"
#include "tests/core/interleavings/explored_set.hpp"
#include "tests/support/explorer/check_passed.hpp"

/// Tests the engine's progress lock, which decides which thread of a rank drives progress. The rank in these tests is a
/// model that only counts operations. Sleeps have no timeouts, so a lost wake-up is a deadlock.
namespace rueda::core::test {
namespace {

using base::AttentionState;
using Word = ExploredAtomics::Atomic<std::uint32_t>;

constexpr std::uint32_t kOperations = 3;
constexpr auto kAnyTime = std::chrono::nanoseconds(1);

enum class Turn { idle, advanced };

/// The model's copy of Engine::Haste: how urgently a waiting caller needs progress.
enum class Haste { urgent, none };

/// AllSteps has these members as constants. Here they are variables, so that a test can leave out steps.
struct LeftOut {
    bool no_second_look = AllSteps::no_second_look;
    bool no_look_for_work = AllSteps::no_look_for_work;
    bool no_look_for_unread = AllSteps::no_look_for_unread;
    bool no_turned_away = AllSteps::no_turned_away;
    bool no_look_for_turned_away = AllSteps::no_look_for_turned_away;
    bool no_look_after_poll = AllSteps::no_look_after_poll;
    bool no_ring_for_holder = AllSteps::no_ring_for_holder;
    bool no_ring_for_change = AllSteps::no_ring_for_change;
    bool no_notification_to_joining = AllSteps::no_notification_to_joining;
    bool ring_before_release = AllSteps::ring_before_release;
};

/// A model of a rank whose operations are only numbers. Its threads take the same steps as those of Engine.
class Model {
public:
    explicit Model(const LeftOut& left_out) : lock_(attention_, *this, left_out) {
        lock_.visit_words([](auto& word, const char* name) { explorer::label(&word, name); });
        explorer::label(&pending_, "pending");
        explorer::label(&stopping_, "stopping");
        explorer::label(&change_, "change");
        explorer::label(&changed_, "changed");
        explorer::label(&message_, "message");
        explorer::label(&tail_, "tail");
        explorer::label(&cursor_, "cursor");
        for (std::uint32_t i = 0; i < kOperations; ++i) {
            explorer::label(&submitted_[i], "submitted", static_cast<int>(i));
            explorer::label(&log_[i], "log", static_cast<int>(i));
            explorer::label(&done_[i], "done", static_cast<int>(i));
        }
    }

    /// Functions that wake another rank call this function. It returns this rank's `attention_` for every rank, because
    /// the model has only one rank.
    [[nodiscard]] auto attention_of() {
        return [this](std::uint32_t) -> auto& { return attention_; };
    }

    // ---- callers ----

    /// Submits an operation. Another rank is the last one to announce it.
    void submit(std::uint32_t operation) {
        pending_.fetch_add(1, std::memory_order_seq_cst);
        submitted_[operation].store(1, std::memory_order_release);
    }
    /// Submits an operation. This rank is the last one to announce it.
    void submit_last(std::uint32_t operation, bool blocking) {
        pending_.fetch_add(1, std::memory_order_seq_cst);
        publish(operation + 1);
        ring_readers_of_log(1, 0, /*own_background=*/!blocking, attention_of());
    }
    void attend() { lock_.attend(); }
    /// Waits for the operation. If `looked` is true, the caller has already seen that the operation is not done.
    void wait(std::uint32_t operation, bool looked = false) {
        wait_for([=, this] { return is_done(operation); }, looked);
    }
    /// Waits as a rank in join() does. The model's join ends together with the operation.
    void join(std::uint32_t operation) {
        wait_for([=, this] { return is_done(operation); }, /*looked=*/false, Haste::none);
    }
    void poll() {
        lock_.poll([this](AttentionState before) {
            while (turn() == Turn::advanced) {
            }
            return before == AttentionState::asleep;
        });
    }
    void poll_until_done(std::uint32_t operation) {
        for (poll(); !is_done(operation); poll()) {
            ExploredAtomics::pause();
        }
    }
    /// Waits as a caller that leaves progress to other threads of the rank.
    void look_on(std::uint32_t operation) {
        while (!is_done(operation)) {
            ExploredAtomics::pause();
        }
    }
    /// Requests a change of the list of process sets, and waits until the next turn makes the
    /// change.
    void change() {
        change_.store(1, std::memory_order_seq_cst);
        lock_.ring_for_change();
        wait_for([this] { return changed_.load(std::memory_order_seq_cst) != 0; }, /*looked=*/false);
    }
    /// Submits a message that the next turn sends. The caller does not wait for the sending.
    void send() {
        pending_.fetch_add(1, std::memory_order_seq_cst);
        message_.store(1, std::memory_order_seq_cst);
        if (lock_.try_lock()) {
            turn();
            lock_.leave();
        } else {
            lock_.ring_holder();
        }
        attend();
    }
    void look_on_sent() {
        while (message_.load(std::memory_order_seq_cst) != 0) {
            ExploredAtomics::pause();
        }
    }
    void stop() {
        stopping_.store(1, std::memory_order_seq_cst);
        attention_.ring_all();
    }

    // ---- another rank ----

    /// Acts as another rank, which announces the operation last. It publishes the call of the operation, and wakes this
    /// rank for the batch.
    void call(std::uint32_t operation) {
        while (submitted_[operation].load(std::memory_order_acquire) == 0) {
            ExploredAtomics::pause();
        }
        publish(operation + 1);
        ring_readers_of_log(1, 1, /*own_background=*/false, attention_of());
        ring_if_sleeping(attention_);
    }
    /// Publishes an entry that ends none of this rank's operations, wakes this rank, and waits until this rank has read
    /// the entry.
    void wait_for_reader() {
        const std::uint32_t position = publish(kNoOperation);
        attention_.ring(attention_.state());
        while (cursor_.load(std::memory_order_acquire) <= position) {
            ExploredAtomics::pause();
        }
    }

    // ---- the background thread ----

    void run_background() {
        while (!is_stopping()) {
            if (!lock_.lock_as_background([] { return kAnyTime; })) {
                continue;
            }
            attention_.set(AttentionState::awake);
            Turn last = Turn::idle;
            while (!lock_.has_waiters() && stopping_.load(std::memory_order_relaxed) == 0) {
                last = turn();
                if (last != Turn::advanced) {
                    break;
                }
            }
            lock_.sleep_as_background(pending() > 0 ? AttentionState::asleep : AttentionState::awake,
                                      [this]() -> std::optional<std::chrono::nanoseconds> {
                                          return turn() == Turn::advanced ? std::nullopt : std::optional(kAnyTime);
                                      });
        }
    }

    // ---- the functions of Work, which ProgressLock calls ----

    [[nodiscard]] std::uint32_t pending() const { return pending_.load(std::memory_order_seq_cst); }
    [[nodiscard]] bool has_work() const { return published() != 0 || message_.load(std::memory_order_seq_cst) != 0; }
    [[nodiscard]] bool holder_has_unread() const { return published() != 0; }
    [[nodiscard]] bool has_unread() const {
        const std::uint32_t next = cursor_.load(std::memory_order_relaxed);
        return next < kOperations && log_[next].load(std::memory_order_seq_cst) != 0;
    }
    [[nodiscard]] bool is_stopping() const { return stopping_.load(std::memory_order_seq_cst) != 0; }

private:
    static constexpr std::uint32_t kNoOperation = 100;  // the value of log entries that call no operation

    std::uint32_t publish(std::uint32_t entry) {
        const std::uint32_t position = tail_.fetch_add(1, std::memory_order_relaxed);
        log_[position].store(entry, std::memory_order_seq_cst);
        return position;
    }
    [[nodiscard]] bool is_done(std::uint32_t operation) const {
        return done_[operation].load(std::memory_order_seq_cst) != 0;
    }
    [[nodiscard]] std::uint32_t published() const {
        const std::uint32_t next = next_.read();
        return next < kOperations ? log_[next].load(std::memory_order_seq_cst) : 0;
    }

    Turn turn() {
        if (makes_changes && change_.load(std::memory_order_seq_cst) != 0) {
            change_.store(0, std::memory_order_relaxed);
            changed_.store(1, std::memory_order_seq_cst);
            lock_.tell_of_change();
        }
        bool advanced = false;
        if (sends_messages && message_.load(std::memory_order_seq_cst) != 0) {
            pending_.fetch_sub(1, std::memory_order_seq_cst);
            message_.store(0, std::memory_order_seq_cst);
            advanced = true;
        }
        if (const std::uint32_t called = published(); called != 0) {
            next_.write(next_.read() + 1);
            cursor_.store(next_.read(), std::memory_order_release);
            if (called != kNoOperation) {
                pending_.fetch_sub(1, std::memory_order_seq_cst);
                done_[called - 1].fetch_add(1, std::memory_order_seq_cst);
            }
            advanced = true;
        }
        if (advanced) {
            lock_.tell_waiters();
        }
        return advanced ? Turn::advanced : Turn::idle;
    }

    template <class Done>
    void wait_for(Done&& done, bool looked, Haste haste = Haste::urgent) {
        for (; looked || !done(); looked = false) {
            if (lock_.try_lock()) {
                drive(done, haste);
                lock_.leave();
                if (haste == Haste::none) {
                    lock_.wait_until_moved(done, kAnyTime);
                }
            } else {
                lock_.wait_until_free(done, kAnyTime);
            }
        }
        attend();
    }
    template <class Done>
    void drive(Done&& done, Haste haste) {
        attention_.set(AttentionState::awake);
        while (!done()) {
            if (haste == Haste::none && lock_.has_waiters()) {
                return;
            }
            if (turn() != Turn::advanced && !done()) {
                if (haste == Haste::none) {
                    return;
                }
                lock_.sleep_as_caller([&] { return turn() != Turn::advanced && !done(); }, kAnyTime);
            }
        }
    }

    base::Attention<ExploredAtomics> attention_;
    ProgressLock<ExploredAtomics, Model, LeftOut> lock_;
    Word pending_;
    Word stopping_;
    Word change_;   ///< stands for Engine::has_changes_
    Word changed_;  ///< whether the change was made
    Word message_;  ///< whether a message waits to be sent by the next turn (pass of the engine)
    Word tail_;
    Word cursor_;  ///< a copy of next_ for threads that do not hold the lock
    std::array<Word, kOperations> submitted_;
    std::array<Word, kOperations> log_;
    std::array<Word, kOperations> done_;
    ExploredPlain<std::uint32_t> next_;  ///< used only with the lock: a race on this field would show that two threads
                                         ///< hold the lock

public:
    // A model looks for changes or messages only if a test sets the flag, because looking for them lengthens the
    // search.
    bool makes_changes = false;
    bool sends_messages = false;
};

/// The steps that the models leave out. explore() creates a Model for each schedule and cannot pass arguments, so the
/// steps are in this variable.
const LeftOut* left_out_now = nullptr;
struct Explored : Model {
    Explored() : Model(*left_out_now) {}
};
using Bodies = std::vector<std::function<void(Explored&)>>;

struct Scenario {
    std::function<void(Explored&)> before = [](Explored&) {};
    Bodies threads;
};

Exploration run(const Scenario& scenario, const Options& options, const LeftOut& left_out = {}) {
    left_out_now = &left_out;
    return explore<Explored>([&](Explored& model) { scenario.before(model); }, scenario.threads,
                             [](Explored& model) { RUEDA_EXPLORER_REQUIRE(model.pending() == 0); }, options);
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
/// A caller submits two operations. It drives progress for the second one and then leaves the first one to the
/// background thread.
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
/// Like left_behind(), but begins later: both operations are already submitted, and the caller has seen that its
/// operation is not done. This later beginning saves two preemptions.
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
/// Two callers wait for an operation each. No caller waits for the third operation.
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
        check_passed(run(asynchronous_last(), {.memory = memory}));
    }
}

// From here on, the search is bounded: it allows two preemptions with three threads, and one with four.
TEST_CASE("an operation that nobody waits for and that another rank calls is driven by the background thread",
          "[unit]") {
    check_passed(run(asynchronous(), {.preemptions = 2}));
}

TEST_CASE("a caller that leaves hands on what is left", "[unit]") {
    check_passed(run(left_behind(), {.preemptions = 2}));
}

TEST_CASE("a caller that finds its own work done by the background thread hands on the rest", "[unit]") {
    check_passed(run(about_to_wait(), {.preemptions = 2}));
}

TEST_CASE("two callers, one of which may find its work done by the other", "[unit]") {
    check_passed(run(two_callers(), {.preemptions = 1}));
}

/// A caller polls twice and then stops polling.
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
/// Like polled(), but begins later: the caller has already polled, and the background thread attends to the operation.
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
/// A caller polls until one operation is done, while another of its operations stays pending.
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
        check_passed(run(scenario, {.preemptions = 2}));
    }
}

/// Another rank waits until this rank has read the log. Meanwhile a caller of this rank waits for the only pending
/// operation, and then leaves the engine.
Scenario read_for_others() {
    return {.threads = {[](Model& model) {
                            model.submit_last(0, /*blocking=*/true);
                            model.wait(0);
                        },
                        background,
                        [](Model& model) {
                            model.wait_for_reader();
                            model.stop();
                        }}};
}
/// Like read_for_others(), but with a second caller. This second caller may let the background thread go to sleep, and
/// may then find its own operation done.
Scenario read_beside_two_callers() {
    return {.threads = {[](Model& model) {
                            model.submit_last(0, /*blocking=*/true);
                            model.wait(0);
                        },
                        [](Model& model) {
                            model.submit_last(1, /*blocking=*/true);
                            model.wait(1);
                        },
                        background,
                        [](Model& model) {
                            model.wait_for_reader();
                            model.stop();
                        }}};
}
Scenario joining() {
    return {.threads = {[](Model& model) {
                            model.submit(0);
                            model.join(0);
                            model.stop();
                        },
                        background, [](Model& model) { model.call(0); }}};
}
/// A thread requests a change while another caller may hold the lock and sleep.
Scenario changing() {
    return {.before = [](Model& model) { model.makes_changes = true; },
            .threads = {[](Model& model) {
                            model.submit(0);
                            model.wait(0);
                        },
                        [](Model& model) {
                            model.change();
                            model.call(0);
                            model.look_on(0);
                            model.stop();
                        },
                        background}};
}
/// A thread sends a message for which no caller waits, while another caller may hold the lock and sleep.
Scenario sending() {
    return {.before = [](Model& model) { model.sends_messages = true; },
            .threads = {[](Model& model) {
                            model.submit(0);
                            model.wait(0);
                        },
                        [](Model& model) {
                            model.send();
                            model.look_on_sent();
                            model.call(0);
                            model.look_on(0);
                            model.stop();
                        },
                        background}};
}

TEST_CASE("a rank with nothing pending reads what others wait for", "[unit]") {
    for (const Scenario& scenario : {read_for_others(), read_beside_two_callers()}) {
        check_passed(run(scenario, {.preemptions = 1}));
    }
}

TEST_CASE("a caller in join(), a change and a message are attended to by the thread that drives", "[unit][long]") {
    for (const Scenario& scenario : {joining(), changing(), sending()}) {
        check_passed(run(scenario, {.preemptions = 2}));
    }
}

TEST_CASE("every part of the hand-over is needed", "[unit]") {
    const auto deadlocks = [](const Scenario& scenario, const LeftOut& left_out) {
        return run(scenario, {.preemptions = 2}, left_out).failure == Failure::deadlock;
    };
    CHECK(deadlocks(asynchronous(), {.no_second_look = true}));
    CHECK(deadlocks(left_behind(), {.no_look_for_work = true}));
    CHECK(deadlocks(left_behind(), {.ring_before_release = true}));
    CHECK(deadlocks(left_behind(), {.no_turned_away = true}));
    CHECK(deadlocks(about_to_wait(), {.no_look_for_turned_away = true}));
    CHECK(deadlocks(polled_asleep(), {.no_look_after_poll = true}));
    CHECK(deadlocks(read_for_others(), {.no_look_for_unread = true}));
    CHECK(deadlocks(joining(), {.no_notification_to_joining = true}));
    CHECK(deadlocks(changing(), {.no_ring_for_change = true}));
    CHECK(deadlocks(sending(), {.no_ring_for_holder = true}));
}

}  // namespace
}  // namespace rueda::core::test
