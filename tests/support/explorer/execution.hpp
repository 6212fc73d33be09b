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

/// The explorer's knowledge about an address within one schedule.
struct Object {
    const void* address = nullptr;
    const char* name = nullptr;  ///< the object's name; if it is null, reports show a number
    int index = -1;
    /// the events that happened before the store that released the present value; a load with acquire order comes after
    /// them
    SyncClock released;
    int plain_writer = -1;
    std::uint32_t plain_write_time = 0;
    std::array<std::uint32_t, kMaxThreads> plain_read_times{};
};

/// Numbers the addresses in the order of their first use. So the numbers are the same each time a schedule runs, even
/// if the addresses differ.
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
    // A hash table of object number + 1, where 0 is a free bucket. The size is a power of two.
    std::vector<std::uint32_t> buckets_;
};

/// The facts about the last transition that are needed to find other schedules.
struct Transition {
    Footprint footprint;
    /// Threads whose next operation had to wait for their store buffer to become empty. Now the buffer is empty.
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
    /// The next transition of `process` cannot come before the last write to `location`.
    std::vector<WriteCause> write_causes;
};

/// One run of one schedule: the threads, their next operations, the memory with its store buffers, and the race
/// detector. An Execution belongs to one operating-system thread, which can have only one Execution at a time.
class Execution {
public:
    Execution(const std::vector<std::function<void()>>& bodies, Memory memory, bool pause_waits);
    ~Execution();
    Execution(const Execution&) = delete;
    Execution& operator=(const Execution&) = delete;
    [[nodiscard]] static Execution* current();

    /// Creates the threads, and runs each thread until its first operation.
    void begin(const std::function<void()>& setup);
    [[nodiscard]] ProcessSet enabled() const;
    [[nodiscard]] bool all_finished() const;
    /// Returns the locations that the process's next transition reads or writes. The process must have a next
    /// transition.
    [[nodiscard]] const Footprint& footprint(std::size_t process) const;
    /// Returns whether the thread's next operation may run only with an empty store buffer. The present state of the
    /// buffer does not matter.
    [[nodiscard]] bool needs_empty_buffer(std::size_t thread) const;
    [[nodiscard]] bool buffer_is_empty(std::size_t thread) const;
    const Transition& step(std::size_t process);
    [[nodiscard]] std::uint32_t events() const { return events_; }
    [[nodiscard]] const std::vector<Step>& steps() const { return steps_; }
    [[nodiscard]] const ObjectTable& objects() const { return objects_; }
    /// Describes the threads that have not ended, for example "thread 1 sleeps on bell".
    [[nodiscard]] std::string describe_waiting() const;

    /// Reports a failure. Later failures are ignored.
    void note_failure(Failure failure, std::string_view text);
    /// Abandons the calling thread. In setup and check, throws an exception instead.
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
        bool asking = false;    // whether the thread requests the operation `next`
        bool sleeping = false;  // whether the thread sleeps on the futex `next.object`
        bool finished = false;
        bool paused = false;
        bool noticed = false;  // whether a watched value has changed since the thread paused
        Operation next;
        Footprint next_footprint;
        Outcome outcome;
        std::vector<Seen> seen;     // values that the thread has read since its last pause
        std::vector<Seen> watched;  // while the thread is paused: the pause ends when one of these values changes
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
    int running_ = -1;  // the thread whose fiber is running
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
