// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The Rueda authors
#include "tests/support/explorer/execution.hpp"

#include <fmt/format.h>

#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <exception>
#include <stdexcept>
#include <utility>

namespace rueda::explorer {
namespace {

thread_local Execution* current_execution = nullptr;

[[nodiscard]] std::uint64_t read_bytes(const void* address, std::uint8_t bytes) {
    std::uint64_t value = 0;
    std::memcpy(&value, address, bytes);
    return value;
}
void write_bytes(const void* address, std::uint8_t bytes, std::uint64_t value) {
    std::memcpy(const_cast<void*>(address), &value, bytes);
}
[[nodiscard]] std::uint64_t truncated(std::uint64_t value, std::uint8_t bytes) {
    return bytes >= sizeof(value) ? value : value & ((std::uint64_t{1} << (8U * bytes)) - 1);
}

[[nodiscard]] bool acquires(std::memory_order order) {
    return order == std::memory_order_acquire || order == std::memory_order_consume ||
           order == std::memory_order_acq_rel || order == std::memory_order_seq_cst;
}
[[nodiscard]] bool releases(std::memory_order order) {
    return order == std::memory_order_release || order == std::memory_order_acq_rel ||
           order == std::memory_order_seq_cst;
}
[[nodiscard]] bool is_read_modify_write(OperationKind kind) {
    return kind >= OperationKind::exchange && kind <= OperationKind::compare_exchange;
}

[[nodiscard]] std::uint64_t combined(const Operation& operation, std::uint64_t before) {
    switch (operation.kind) {
        case OperationKind::fetch_add:
            return before + operation.operand;
        case OperationKind::fetch_sub:
            return before - operation.operand;
        case OperationKind::fetch_and:
            return before & operation.operand;
        case OperationKind::fetch_or:
            return before | operation.operand;
        case OperationKind::fetch_xor:
            return before ^ operation.operand;
        default:
            return operation.operand;
    }
}

/// Executes an operation outside of an exploration, where no other threads exist.
Outcome apply_at_once(const Operation& operation, void* address) {
    Outcome outcome;
    outcome.before = read_bytes(address, operation.bytes);
    outcome.succeeded = operation.kind != OperationKind::compare_exchange || outcome.before == operation.expected;
    const bool writes = operation.kind == OperationKind::store || is_read_modify_write(operation.kind);
    if (writes && outcome.succeeded) {
        write_bytes(address, operation.bytes, combined(operation, outcome.before));
    }
    return outcome;
}

/// Fibonacci hashing (Knuth, The Art of Computer Programming 3, section 6.4).
[[nodiscard]] std::size_t scattered(const void* address) {
    return static_cast<std::size_t>(reinterpret_cast<std::uintptr_t>(address) * 0x9E3779B97F4A7C15U >> 32U);
}

constexpr Access value_of(std::uint32_t object, bool writes) { return {2 * object, writes}; }
constexpr Access sleepers_of(std::uint32_t object, bool writes) { return {2 * object + 1, writes}; }

}  // namespace

ObjectTable::ObjectTable() : buckets_(256) {}

std::uint32_t ObjectTable::number_of(const void* address) {
    const std::size_t mask = buckets_.size() - 1;
    std::size_t bucket = scattered(address) & mask;
    while (buckets_[bucket] != 0) {
        if (objects_[buckets_[bucket] - 1].address == address) {
            return buckets_[bucket] - 1;
        }
        bucket = (bucket + 1) & mask;
    }
    const auto number = static_cast<std::uint32_t>(objects_.size());
    objects_.emplace_back().address = address;
    buckets_[bucket] = number + 1;
    if (2 * objects_.size() > buckets_.size()) {
        buckets_.assign(2 * buckets_.size(), 0);
        for (std::uint32_t known = 0; known <= number; ++known) {
            insert(known);
        }
    }
    return number;
}

void ObjectTable::insert(std::uint32_t number) {
    const std::size_t mask = buckets_.size() - 1;
    std::size_t bucket = scattered(objects_[number].address) & mask;
    while (buckets_[bucket] != 0) {
        bucket = (bucket + 1) & mask;
    }
    buckets_[bucket] = number + 1;
}

std::string ObjectTable::name_of(std::uint32_t number) const {
    const Object& object = objects_[number];
    if (object.name == nullptr) {
        return fmt::format("#{}", number);
    }
    return object.index < 0 ? std::string(object.name) : fmt::format("{}[{}]", object.name, object.index);
}

void ObjectTable::clear() {
    objects_.clear();
    buckets_.assign(buckets_.size(), 0);
}

Execution::Execution(const std::vector<std::function<void()>>& bodies, Memory memory, bool pause_waits)
    : bodies_(bodies), memory_(memory), pause_waits_(pause_waits) {
    if (bodies.empty() || bodies.size() > kMaxThreads) {
        throw std::invalid_argument(
            fmt::format("explore: {} threads; 1 to {} are possible", bodies.size(), kMaxThreads));
    }
    if (current_execution != nullptr) {
        throw std::logic_error("explore: called inside another exploration");
    }
    for (std::size_t thread = 0; thread < bodies.size(); ++thread) {
        threads_[thread].fiber = std::make_unique<Fiber>([this, thread] { run_body(thread); });
    }
    current_execution = this;
}

Execution::~Execution() { current_execution = nullptr; }

Execution* Execution::current() { return current_execution; }

void Execution::run_body(std::size_t thread) {
    try {
        bodies_[thread]();
    } catch (const std::exception& error) {
        note_failure(Failure::exception, fmt::format("thread {} threw: {}", thread, error.what()));
    } catch (...) {
        note_failure(Failure::exception, fmt::format("thread {} threw something that is no std::exception", thread));
    }
    threads_[thread].finished = true;
}

void Execution::begin(const std::function<void()>& setup) {
    objects_.clear();
    steps_.clear();
    events_ = 0;
    transition_ = {};
    setup();
    for (std::size_t number = 0; number < bodies_.size(); ++number) {
        Thread& thread = threads_[number];
        thread.asking = thread.sleeping = thread.finished = thread.paused = thread.noticed = false;
        thread.seen.clear();
        thread.watched.clear();
        thread.buffer.clear();
        thread.sync = {};
        thread.sync.at[number] = 1;
    }
    for (std::size_t number = 0; number < bodies_.size() && failure_ == Failure::none; ++number) {
        advance(number);
    }
}

/// Runs the thread's code until the code requests an operation, ends, or fails.
void Execution::advance(std::size_t number) {
    Thread& thread = threads_[number];
    thread.asking = false;
    const int outer = std::exchange(running_, static_cast<int>(number));
    thread.fiber->resume();
    running_ = outer;
    if (!thread.asking) {
        return;
    }
    describe_next(number);
    look_again_after_pause(number);
    if (needs_empty_buffer(number) && buffer_is_empty(number)) {
        // The thread's next operation needs an empty store buffer, and the buffer is now empty. So the operation counts
        // as later than the transitions that emptied the buffer.
        transition_.after_own_buffer |= only(number);
    }
}

bool Execution::goes_to_buffer(const Operation& operation) const {
    return memory_ == Memory::store_buffers && operation.kind == OperationKind::store &&
           operation.order != std::memory_order_seq_cst;
}

void Execution::describe_next(std::size_t number) {
    const Operation& next = threads_[number].next;
    Footprint& footprint = threads_[number].next_footprint;
    footprint.clear();
    switch (next.kind) {
        case OperationKind::load:
            footprint.push_back(value_of(next.object, false));
            break;
        case OperationKind::futex_wait:
            footprint.push_back(value_of(next.object, false));
            footprint.push_back(sleepers_of(next.object, false));
            break;
        case OperationKind::futex_wake_all:
            footprint.push_back(sleepers_of(next.object, true));
            break;
        default:
            if (!goes_to_buffer(next)) {
                footprint.push_back(value_of(next.object, true));
            }
            break;
    }
}

/// If a value changed after the thread loaded it and before the thread called pause(), the pause ends at once.
void Execution::look_again_after_pause(std::size_t number) {
    Thread& thread = threads_[number];
    if (!thread.paused) {
        return;
    }
    thread.noticed = false;
    for (const Seen& watched : thread.watched) {
        thread.noticed = thread.noticed || view(number, watched.object, watched.bytes) != watched.value;
    }
    if (thread.watched.size() > 1) {
        // The pause ends when any of the watched values changes. So the explorer treats the next transition as a read
        // of all of them.
        for (const Seen& watched : thread.watched) {
            thread.next_footprint.push_back(value_of(watched.object, false));
        }
    } else if (thread.noticed) {
        let_go_on(number);
    }
}

/// Lets the paused thread continue after the write to its watched object. The thread cannot continue before this write,
/// so the explorer has no other order to try.
void Execution::let_go_on(std::size_t number) {
    transition_.write_causes.push_back({number, value_of(threads_[number].watched.front().object, false).location});
}

const Footprint& Execution::footprint(std::size_t process) const {
    return is_buffer(process) ? threads_[thread_of(process)].flush_footprint : threads_[process].next_footprint;
}

bool Execution::needs_empty_buffer(std::size_t number) const {
    const Thread& thread = threads_[number];
    // On x86, locked instructions empty the store buffer. Both futex calls also empty it (smp_mb in kernel/futex).
    return memory_ == Memory::store_buffers && thread.asking && thread.next.kind != OperationKind::load &&
           !goes_to_buffer(thread.next);
}

bool Execution::buffer_is_empty(std::size_t thread) const { return threads_[thread].buffer.empty(); }

ProcessSet Execution::enabled() const {
    ProcessSet result = 0;
    for (std::size_t number = 0; number < bodies_.size(); ++number) {
        const Thread& thread = threads_[number];
        if (!thread.buffer.empty()) {
            result |= only(buffer_of(number));
        }
        const bool waits = (thread.paused && !thread.noticed) || (!thread.buffer.empty() && needs_empty_buffer(number));
        if (thread.asking && !waits) {
            result |= only(number);
        }
    }
    return result;
}

bool Execution::all_finished() const {
    for (std::size_t number = 0; number < bodies_.size(); ++number) {
        if (!threads_[number].finished || !threads_[number].buffer.empty()) {
            return false;
        }
    }
    return true;
}

const Transition& Execution::step(std::size_t process) {
    transition_.footprint.clear();
    transition_.causes.clear();
    transition_.write_causes.clear();
    transition_.after_own_buffer = 0;
    if (is_buffer(process)) {
        step_buffer(thread_of(process));
    } else {
        step_thread(process);
    }
    ++events_;
    return transition_;
}

void Execution::step_thread(std::size_t number) {
    Thread& thread = threads_[number];
    const Operation operation = thread.next;
    thread.paused = false;
    thread.noticed = false;
    thread.asking = false;
    transition_.footprint = thread.next_footprint;
    thread.outcome = apply(number, operation);
    steps_.push_back({number, operation, thread.outcome});
    if (operation.kind == OperationKind::futex_wait && thread.outcome.succeeded) {
        thread.sleeping = true;
        return;
    }
    advance(number);
    if (operation.kind == OperationKind::futex_wake_all) {
        wake_threads(thread.outcome.affected);
    }
}

void Execution::step_buffer(std::size_t number) {
    Thread& thread = threads_[number];
    const BufferedStore store = thread.buffer.front();
    thread.buffer.erase(thread.buffer.begin());
    Outcome outcome;
    outcome.before = read_bytes(objects_[store.object].address, store.bytes);
    outcome.after = store.value;
    objects_[store.object].released = store.released;
    commit(number, store.object, store.bytes, store.value);
    transition_.footprint.push_back(value_of(store.object, true));
    const Operation operation{.kind = OperationKind::flush, .bytes = store.bytes, .object = store.object};
    steps_.push_back({buffer_of(number), operation, outcome});
    if (!thread.buffer.empty()) {
        expose_buffer_head(number);
    } else if (needs_empty_buffer(number)) {
        transition_.after_own_buffer |= only(number);
    }
}

void Execution::expose_buffer_head(std::size_t number) {
    Thread& thread = threads_[number];
    const BufferedStore& head = thread.buffer.front();
    thread.flush_footprint.assign(1, value_of(head.object, true));
    transition_.causes.push_back({buffer_of(number), head.event});
}

Outcome Execution::apply(std::size_t number, const Operation& operation) {
    switch (operation.kind) {
        case OperationKind::load: {
            Outcome outcome;
            outcome.buffered = newest_buffered(number, operation.object) != nullptr;
            outcome.before = outcome.after = view(number, operation.object, operation.bytes);
            if (!outcome.buffered) {
                acquire(number, operation.object, operation.order);
            }
            see(number, operation, outcome.before);
            return outcome;
        }
        case OperationKind::store:
            return apply_store(number, operation);
        case OperationKind::futex_wait:
            return apply_wait(number, operation);
        case OperationKind::futex_wake_all:
            return apply_wake(number, operation);
        default:
            return apply_read_modify_write(number, operation);
    }
}

Outcome Execution::apply_store(std::size_t number, const Operation& operation) {
    Outcome outcome;
    outcome.before = view(number, operation.object, operation.bytes);
    outcome.after = operation.operand;
    outcome.buffered = goes_to_buffer(operation);
    const SyncClock released = release(number, operation.order);
    see_own(number, operation.object, operation.operand);
    if (!outcome.buffered) {
        objects_[operation.object].released = released;
        commit(number, operation.object, operation.bytes, operation.operand);
        return outcome;
    }
    std::vector<BufferedStore>& buffer = threads_[number].buffer;
    buffer.push_back({operation.object, operation.bytes, operation.operand, released, events_});
    if (buffer.size() == 1) {
        expose_buffer_head(number);
    }
    return outcome;
}

Outcome Execution::apply_read_modify_write(std::size_t number, const Operation& operation) {
    Object& object = objects_[operation.object];
    Outcome outcome;
    outcome.before = read_bytes(object.address, operation.bytes);
    outcome.after = truncated(combined(operation, outcome.before), operation.bytes);
    see(number, operation, outcome.before);
    if (operation.kind == OperationKind::compare_exchange && outcome.before != operation.expected) {
        outcome.succeeded = false;
        outcome.after = outcome.before;
        acquire(number, operation.object, operation.failure_order);
        transition_.footprint.assign(1, value_of(operation.object, false));
        return outcome;
    }
    acquire(number, operation.object, operation.order);
    // A read-modify-write continues the release sequence of the value that it reads, whatever its own memory order is.
    object.released.join(release(number, operation.order));
    see_own(number, operation.object, outcome.after);
    commit(number, operation.object, operation.bytes, outcome.after);
    return outcome;
}

Outcome Execution::apply_wait(std::size_t number, const Operation& operation) {
    Outcome outcome;
    outcome.before = outcome.after = read_bytes(objects_[operation.object].address, operation.bytes);
    outcome.succeeded = outcome.before == operation.expected;
    see(number, operation, outcome.before);
    if (!outcome.succeeded) {
        transition_.footprint.assign(1, value_of(operation.object, false));
    }
    return outcome;
}

Outcome Execution::apply_wake(std::size_t /*number*/, const Operation& operation) {
    Outcome outcome;
    outcome.before = outcome.after = read_bytes(objects_[operation.object].address, operation.bytes);
    for (std::size_t other = 0; other < bodies_.size(); ++other) {
        if (threads_[other].sleeping && threads_[other].next.object == operation.object) {
            outcome.affected |= only(other);
        }
    }
    return outcome;
}

void Execution::wake_threads(ProcessSet threads) {
    for (std::size_t number = 0; number < bodies_.size(); ++number) {
        if (contains(threads, number) && failure_ == Failure::none) {
            threads_[number].sleeping = false;
            transition_.causes.push_back({number, events_});
            advance(number);
        }
    }
}

/// Writes a value to memory, where all threads can see it.
void Execution::commit(std::size_t writer, std::uint32_t object, std::uint8_t bytes, std::uint64_t value) {
    write_bytes(objects_[object].address, bytes, value);
    notice(writer, object, value);
}

void Execution::notice(std::size_t writer, std::uint32_t object, std::uint64_t value) {
    for (std::size_t number = 0; number < bodies_.size(); ++number) {
        Thread& thread = threads_[number];
        if (number == writer || !thread.paused || thread.noticed || newest_buffered(number, object) != nullptr) {
            continue;
        }
        for (const Seen& watched : thread.watched) {
            thread.noticed = thread.noticed || (watched.object == object && watched.value != value);
        }
        if (thread.noticed && thread.watched.size() == 1) {
            let_go_on(number);
        }
    }
}

const Execution::BufferedStore* Execution::newest_buffered(std::size_t number, std::uint32_t object) const {
    const std::vector<BufferedStore>& buffer = threads_[number].buffer;
    for (auto store = buffer.rbegin(); store != buffer.rend(); ++store) {
        if (store->object == object) {
            return &*store;
        }
    }
    return nullptr;
}

/// Returns the value that this thread would load.
std::uint64_t Execution::view(std::size_t number, std::uint32_t object, std::uint8_t bytes) const {
    const BufferedStore* const own = newest_buffered(number, object);
    return own != nullptr ? own->value : read_bytes(objects_[object].address, bytes);
}

/// Stores the value that the thread has loaded from an object. After a pause(), only the first value of each object is
/// stored, because a spin loop decides by the first value.
void Execution::see(std::size_t number, const Operation& operation, std::uint64_t value) {
    std::vector<Seen>& seen = threads_[number].seen;
    for (const Seen& known : seen) {
        if (known.object == operation.object) {
            return;
        }
    }
    seen.push_back({operation.object, operation.bytes, value});
}

/// After a write by the thread itself, updates the value that the thread has seen. So its own write does not end its
/// pause.
void Execution::see_own(std::size_t number, std::uint32_t object, std::uint64_t value) {
    for (Seen& known : threads_[number].seen) {
        if (known.object == object) {
            known.value = value;
        }
    }
}

void Execution::acquire(std::size_t number, std::uint32_t object, std::memory_order order) {
    if (acquires(order)) {
        threads_[number].sync.join(objects_[object].released);
    }
}

SyncClock Execution::release(std::size_t number, std::memory_order order) {
    if (!releases(order)) {
        return {};
    }
    const SyncClock released = threads_[number].sync;
    ++threads_[number].sync.at[number];
    return released;
}

Outcome Execution::perform(Operation operation, void* address) {
    operation.object = objects_.number_of(address);
    if (running_ < 0) {
        const Outcome outcome = apply_at_once(operation, address);
        if (operation.kind == OperationKind::futex_wait && outcome.before == operation.expected) {
            note_failure(Failure::deadlock, "setup or check sleeps on " + objects_.name_of(operation.object));
            leave();
        }
        return outcome;
    }
    Thread& thread = threads_[static_cast<std::size_t>(running_)];
    thread.next = operation;
    thread.asking = true;
    thread.fiber->suspend();
    return thread.outcome;
}

void Execution::pause() {
    if (running_ < 0 || !pause_waits_) {
        return;
    }
    Thread& thread = threads_[static_cast<std::size_t>(running_)];
    if (!thread.seen.empty()) {
        thread.watched.swap(thread.seen);
        thread.seen.clear();
        thread.paused = true;
    }
}

void Execution::observe_plain(OperationKind kind, const void* address, std::uint64_t value) {
    const std::uint32_t number = objects_.number_of(address);
    Object& object = objects_[number];
    const bool writes = kind == OperationKind::plain_write;
    if (running_ < 0) {
        object.plain_writer = -1;
        object.plain_read_times = {};
        return;
    }
    const auto running = static_cast<std::size_t>(running_);
    steps_.push_back({running, {.kind = kind, .object = number}, {.before = value, .after = value}});
    check_race(object, number, running, writes);
    const std::uint32_t now = threads_[running].sync.at[running];
    if (writes) {
        object.plain_writer = running_;
        object.plain_write_time = now;
        object.plain_read_times = {};
    } else {
        object.plain_read_times[running] = now;
    }
}

void Execution::check_race(const Object& object, std::uint32_t number, std::size_t running, bool writes) {
    const SyncClock& known = threads_[running].sync;
    const auto report = [&](std::size_t other, const char* did) {
        note_failure(Failure::race,
                     fmt::format("data race on {}: thread {} {} it and thread {} {} it, and no release and "
                                 "acquire order the two",
                                 objects_.name_of(number), other, did, running, writes ? "writes" : "reads"));
        leave();
    };
    if (object.plain_writer >= 0) {
        const auto writer = static_cast<std::size_t>(object.plain_writer);
        if (writer != running && !known.covers(writer, object.plain_write_time)) {
            report(writer, "writes");
        }
    }
    for (std::size_t reader = 0; writes && reader < bodies_.size(); ++reader) {
        if (reader != running && !known.covers(reader, object.plain_read_times[reader])) {
            report(reader, "reads");
        }
    }
}

void Execution::label(const void* address, const char* name, int index) {
    Object& object = objects_[objects_.number_of(address)];
    object.name = name;
    object.index = index;
}

void Execution::note_failure(Failure failure, std::string_view text) {
    if (failure_ == Failure::none) {
        failure_ = failure;
        failure_text_ = text;
    }
}

/// Leaves the fiber without unwinding its stack, so objects on the stack must not own memory.
void Execution::leave() {
    if (running_ < 0) {
        throw FailedOutsideThreads{};
    }
    threads_[static_cast<std::size_t>(running_)].fiber->suspend();
    std::abort();  // this line is not reached, because a failed thread is not resumed
}

std::string Execution::describe_waiting() const {
    std::string text;
    for (std::size_t number = 0; number < bodies_.size(); ++number) {
        const Thread& thread = threads_[number];
        if (thread.sleeping) {
            text += fmt::format("; thread {} sleeps on {}", number, objects_.name_of(thread.next.object));
        } else if (thread.paused) {
            text += fmt::format("; thread {} spins on", number);
            for (const Seen& watched : thread.watched) {
                text += ' ' + objects_.name_of(watched.object);
            }
        }
    }
    return text.empty() ? text : text.substr(2);
}

// ExploredAtomics calls the following functions.

Outcome perform(Operation operation, void* address) {
    if (current_execution != nullptr) {
        return current_execution->perform(operation, address);
    }
    return apply_at_once(operation, address);
}

void pause() {
    if (current_execution != nullptr) {
        current_execution->pause();
    }
}

void observe_plain(OperationKind kind, const void* address, std::uint64_t value) {
    if (current_execution != nullptr) {
        current_execution->observe_plain(kind, address, value);
    }
}

void label(const void* object, const char* name, int index) {
    if (current_execution != nullptr) {
        current_execution->label(object, name, index);
    }
}

void explorer_fail(std::string_view text) {
    if (current_execution == nullptr) {
        std::fprintf(stderr, "explorer_fail outside an exploration: %.*s\n", static_cast<int>(text.size()),
                     text.data());
        std::abort();
    }
    current_execution->note_failure(Failure::check, text);
    current_execution->leave();
}

}  // namespace rueda::explorer
