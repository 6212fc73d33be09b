// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The Rueda authors
#pragma once

#include <atomic>
#include <chrono>
#include <cstdint>
#include <cstring>
#include <type_traits>

#include "tests/support/explorer/operation.hpp"

namespace rueda::explorer {

/// Passes an operation to the exploration on this thread. Outside an exploration, and in setup and check, executes the
/// operation at once.
Outcome perform(Operation operation, void* address);
void pause();
/// Tells the race detector about an access of ExploredPlain. The explorer does not switch threads at such an access.
void observe_plain(OperationKind kind, const void* address, std::uint64_t value);

/// Names an object in schedules: "slot" or, with an index, "slot[3]". Call this function in setup. `name` must stay
/// valid until the exploration ends.
void label(const void* object, const char* name, int index = -1);

/// Has the size and alignment of T, because protocols assert the layout of their structs.
template <class T>
class ExploredAtomic {
    static_assert(std::is_trivially_copyable_v<T> && sizeof(T) <= sizeof(std::uint64_t));

public:
    using value_type = T;
    static constexpr bool is_always_lock_free = true;

    constexpr ExploredAtomic() noexcept = default;
    constexpr ExploredAtomic(T value) noexcept : value_(value) {}  // NOLINT(google-explicit-constructor): std::atomic
    ExploredAtomic(const ExploredAtomic&) = delete;
    ExploredAtomic& operator=(const ExploredAtomic&) = delete;

    [[nodiscard]] T load(std::memory_order order = std::memory_order_seq_cst) const {
        return value_of(ask(OperationKind::load, order).before);
    }
    void store(T value, std::memory_order order = std::memory_order_seq_cst) {
        ask(OperationKind::store, order, bits_of(value));
    }
    T exchange(T value, std::memory_order order = std::memory_order_seq_cst) {
        return value_of(ask(OperationKind::exchange, order, bits_of(value)).before);
    }
    T fetch_add(T value, std::memory_order order = std::memory_order_seq_cst) {
        return value_of(ask(OperationKind::fetch_add, order, bits_of(value)).before);
    }
    T fetch_sub(T value, std::memory_order order = std::memory_order_seq_cst) {
        return value_of(ask(OperationKind::fetch_sub, order, bits_of(value)).before);
    }
    T fetch_and(T value, std::memory_order order = std::memory_order_seq_cst) {
        return value_of(ask(OperationKind::fetch_and, order, bits_of(value)).before);
    }
    T fetch_or(T value, std::memory_order order = std::memory_order_seq_cst) {
        return value_of(ask(OperationKind::fetch_or, order, bits_of(value)).before);
    }
    T fetch_xor(T value, std::memory_order order = std::memory_order_seq_cst) {
        return value_of(ask(OperationKind::fetch_xor, order, bits_of(value)).before);
    }
    bool compare_exchange_strong(T& expected, T desired, std::memory_order success, std::memory_order failure) {
        const Operation operation{.kind = OperationKind::compare_exchange,
                                  .order = success,
                                  .failure_order = failure,
                                  .bytes = sizeof(T),
                                  .operand = bits_of(desired),
                                  .expected = bits_of(expected)};
        const Outcome outcome = perform(operation, &value_);
        if (!outcome.succeeded) {
            expected = value_of(outcome.before);
        }
        return outcome.succeeded;
    }
    bool compare_exchange_strong(T& expected, T desired, std::memory_order order = std::memory_order_seq_cst) {
        return compare_exchange_strong(expected, desired, order, failure_order(order));
    }
    /// Unlike std::atomic's function, this function never fails spuriously. Loops that call it do not depend on
    /// spurious failures.
    bool compare_exchange_weak(T& expected, T desired, std::memory_order success, std::memory_order failure) {
        return compare_exchange_strong(expected, desired, success, failure);
    }
    bool compare_exchange_weak(T& expected, T desired, std::memory_order order = std::memory_order_seq_cst) {
        return compare_exchange_strong(expected, desired, order);
    }

private:
    friend struct ExploredAtomics;

    [[nodiscard]] static constexpr std::memory_order failure_order(std::memory_order order) {
        return order == std::memory_order_acq_rel   ? std::memory_order_acquire
               : order == std::memory_order_release ? std::memory_order_relaxed
                                                    : order;
    }
    [[nodiscard]] static std::uint64_t bits_of(T value) {
        std::uint64_t bits = 0;
        std::memcpy(&bits, &value, sizeof(T));
        return bits;
    }
    [[nodiscard]] static T value_of(std::uint64_t bits) {
        T value;
        std::memcpy(&value, &bits, sizeof(T));
        return value;
    }
    Outcome ask(OperationKind kind, std::memory_order order, std::uint64_t operand = 0) const {
        return perform(Operation{.kind = kind, .order = order, .bytes = sizeof(T), .operand = operand}, &value_);
    }

    mutable T value_{};
};

/// The atomics that replace base::StdAtomics in an exploration. Futex waits ignore their timeout, so that a lost
/// wake-up is reported as a deadlock.
struct ExploredAtomics {
    template <class T>
    using Atomic = ExploredAtomic<T>;

    static void futex_wait(Atomic<std::uint32_t>& word, std::uint32_t expected,
                           std::chrono::nanoseconds /*timeout*/ = std::chrono::hours(1)) {
        perform(Operation{.kind = OperationKind::futex_wait, .bytes = sizeof(expected), .expected = expected},
                &word.value_);
    }
    static void futex_wake_all(Atomic<std::uint32_t>& word) {
        perform(Operation{.kind = OperationKind::futex_wake_all, .bytes = sizeof(std::uint32_t)}, &word.value_);
    }
    static void pause() { explorer::pause(); }
};

/// Non-atomic memory. If two threads access it and at least one writes, release and acquire operations must order the
/// accesses. Otherwise the explorer reports a race.
template <class T>
class ExploredPlain {
    static_assert(std::is_trivially_copyable_v<T>);

public:
    ExploredPlain() : ExploredPlain(T{}) {}
    explicit ExploredPlain(T value) : value_(value) { observe(OperationKind::plain_write); }
    ExploredPlain(const ExploredPlain&) = delete;
    ExploredPlain& operator=(const ExploredPlain&) = delete;

    [[nodiscard]] T read() const {
        observe(OperationKind::plain_read);
        return value_;
    }
    void write(T value) {
        value_ = value;
        observe(OperationKind::plain_write);
    }

private:
    void observe(OperationKind kind) const {
        std::uint64_t shown = 0;
        std::memcpy(&shown, &value_, sizeof(T) < sizeof(shown) ? sizeof(T) : sizeof(shown));
        observe_plain(kind, &value_, shown);
    }
    T value_;
};

}  // namespace rueda::explorer
