// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The Rueda authors
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "tests/support/explorer/explorer.hpp"
#include "tests/support/explorer/fiber.hpp"
#include "tests/support/explorer/operation.hpp"

namespace rueda::explorer {

using SyncClock = VectorClock<kMaxThreads>;

/// What is known of an address within one schedule.
struct Object {
    const void* address = nullptr;
    const char* name = nullptr;  ///< none: shown by its number
    int index = -1;
    SyncClock released;  ///< what an acquire of the present value makes known
    int plain_writer = -1;
    std::uint32_t plain_write_time = 0;
    std::array<std::uint32_t, kMaxThreads> plain_read_times{};
};

/// Addresses in the order in which they were first used, which repeats with the schedule (the addresses may not).
class ObjectTable {
public:
    ObjectTable();
    [[nodiscard]] std::uint32_t number_of(const void* address);
    [[nodiscard]] Object& operator[](std::uint32_t number) { return objects_[number]; }
    [[nodiscard]] const Object& operator[](std::uint32_t number) const { return objects_[number]; }
    [[nodiscard]] std::string name_of(std::uint32_t number) const;
    void clear();

private:
    void insert(std::uint32_t number);

    std::vector<Object> objects_;
    std::vector<std::uint32_t> buckets_;  // object number + 1; 0 is free; a power of two
};

/// What the last transition did, as far as the search for other schedules needs it.
struct Transition {
    Footprint footprint;
    /// Threads whose next transition needed their buffer to be empty, which it now is.
    ProcessSet after_own_buffer = 0;
    struct Cause {
        std::size_t process;
        std::uint32_t event;
    };
    /// The next transition of `process` cannot come before `event`.
    std::vector<Cause> causes;
    struct WriteCause {
        std::size_t process;
        std::uint32_t location;
    };
    /// The next transition of `process` cannot come before the present value of `location`.
    std::vector<WriteCause> write_causes;
};

/// One schedule: the threads, what they ask for next, memory with its buffers, and the race detector.
/// Threads: one operating-system thread; at most one Execution lives on it.
class Execution {
public:
    Execution(const std::vector<std::function<void()>>& bodies, Memory memory, bool pause_waits);
    ~Execution();
    Execution(const Execution&) = delete;
    Execution& operator=(const Execution&) = delete;
    [[nodiscard]] static Execution* current();

    /// Makes the state and brings every thread to its first operation.
    void begin(const std::function<void()>& setup);
    [[nodiscard]] ProcessSet enabled() const;
    [[nodiscard]] bool all_finished() const;
    /// Of the next transition of a process that has one.
    [[nodiscard]] const Footprint& footprint(std::size_t process) const;
    /// Store buffers: the next operation of the thread waits for (or has seen) its buffer's end.
    [[nodiscard]] bool needs_empty_buffer(std::size_t thread) const;
    [[nodiscard]] bool buffer_is_empty(std::size_t thread) const;
    const Transition& step(std::size_t process);
    [[nodiscard]] std::uint32_t events() const { return events_; }
    [[nodiscard]] const std::vector<Step>& steps() const { return steps_; }
    [[nodiscard]] const ObjectTable& objects() const { return objects_; }
    /// "thread 1 sleeps on bell" for those that have not ended.
    [[nodiscard]] std::string describe_waiting() const;

    /// The first one counts.
    void note_failure(Failure failure, std::string_view text);
    /// On a thread: abandons it. In setup and check: throws.
    [[noreturn]] void leave();
    [[nodiscard]] Failure failure() const { return failure_; }
    [[nodiscard]] const std::string& failure_text() const { return failure_text_; }

    Outcome perform(Operation operation, void* address);
    void pause();
    void observe_plain(OperationKind kind, const void* address, std::uint64_t value);
    void label(const void* object, const char* name, int index);

private:
    struct Seen {
        std::uint32_t object;
        std::uint8_t bytes;
        std::uint64_t value;
    };
    struct BufferedStore {
        std::uint32_t object;
        std::uint8_t bytes;
        std::uint64_t value;
        SyncClock released;
        std::uint32_t event;
    };
    struct Thread {
        std::unique_ptr<Fiber> fiber;
        bool asking = false;    // `next` is what it wants to do
        bool sleeping = false;  // in a futex, on the object of `next`
        bool finished = false;
        bool paused = false;
        bool noticed = false;  // something changed since it paused
        Operation next;
        Footprint next_footprint;
        Outcome outcome;
        std::vector<Seen> seen;     // since the last pause
        std::vector<Seen> watched;  // while paused
        std::vector<BufferedStore> buffer;
        Footprint flush_footprint;
        SyncClock sync;
    };

    void run_body(std::size_t thread);
    void advance(std::size_t thread);
    void step_thread(std::size_t thread);
    void step_buffer(std::size_t thread);
    [[nodiscard]] Outcome apply(std::size_t thread, const Operation& operation);
    [[nodiscard]] Outcome apply_store(std::size_t thread, const Operation& operation);
    [[nodiscard]] Outcome apply_read_modify_write(std::size_t thread, const Operation& operation);
    [[nodiscard]] Outcome apply_wait(std::size_t thread, const Operation& operation);
    [[nodiscard]] Outcome apply_wake(std::size_t thread, const Operation& operation);
    void wake_threads(ProcessSet threads);
    void commit(std::size_t thread, std::uint32_t object, std::uint8_t bytes, std::uint64_t value);
    void notice(std::size_t writer, std::uint32_t object, std::uint64_t value);
    void expose_buffer_head(std::size_t thread);
    [[nodiscard]] const BufferedStore* newest_buffered(std::size_t thread, std::uint32_t object) const;
    [[nodiscard]] std::uint64_t view(std::size_t thread, std::uint32_t object, std::uint8_t bytes) const;
    void see(std::size_t thread, const Operation& operation, std::uint64_t value);
    void see_own(std::size_t thread, std::uint32_t object, std::uint64_t value);
    void describe_next(std::size_t thread);
    void look_again_after_pause(std::size_t thread);
    void let_go_on(std::size_t thread);
    [[nodiscard]] bool goes_to_buffer(const Operation& operation) const;
    void acquire(std::size_t thread, std::uint32_t object, std::memory_order order);
    [[nodiscard]] SyncClock release(std::size_t thread, std::memory_order order);
    void check_race(const Object& object, std::uint32_t number, std::size_t thread, bool writes);

    const std::vector<std::function<void()>>& bodies_;
    const Memory memory_;
    const bool pause_waits_;
    std::array<Thread, kMaxThreads> threads_;
    int running_ = -1;  // the thread whose fiber is on the processor
    ObjectTable objects_;
    std::vector<Step> steps_;
    std::uint32_t events_ = 0;
    Transition transition_;
    Failure failure_ = Failure::none;
    std::string failure_text_;
};

/// Thrown by leave() in setup and check.
struct FailedOutsideThreads {};

}  // namespace rueda::explorer
