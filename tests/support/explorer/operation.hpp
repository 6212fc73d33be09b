// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The Rueda authors
#pragma once

#include <array>
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <vector>

namespace rueda::explorer {

inline constexpr std::size_t kMaxThreads = 8;
/// The number of processes. Process t is thread t, and process kMaxThreads + t is the store buffer of thread t.
inline constexpr std::size_t kMaxProcesses = 2 * kMaxThreads;
/// A set of processes, with one bit for each process.
using ProcessSet = std::uint32_t;

[[nodiscard]] constexpr ProcessSet only(std::size_t process) { return ProcessSet{1} << process; }
[[nodiscard]] constexpr bool contains(ProcessSet set, std::size_t process) { return (set & only(process)) != 0; }
[[nodiscard]] constexpr bool is_buffer(std::size_t process) { return process >= kMaxThreads; }
[[nodiscard]] constexpr std::size_t buffer_of(std::size_t thread) { return thread + kMaxThreads; }
[[nodiscard]] constexpr std::size_t thread_of(std::size_t process) { return process % kMaxThreads; }

enum class OperationKind : std::uint8_t {
    load,
    store,
    exchange,
    fetch_add,
    fetch_sub,
    fetch_and,
    fetch_or,
    fetch_xor,
    compare_exchange,
    futex_wait,
    futex_wake_all,
    flush,  ///< the oldest store of a buffer reaches memory
    plain_read,
    plain_write,
};

/// An operation that a thread requests. Values are zero-extended to 64 bits.
struct Operation {
    OperationKind kind = OperationKind::load;
    std::memory_order order = std::memory_order_seq_cst;
    std::memory_order failure_order = std::memory_order_seq_cst;
    std::uint8_t bytes = 0;
    std::uint32_t object = 0;
    std::uint64_t operand = 0;
    std::uint64_t expected = 0;
};

struct Outcome {
    std::uint64_t before = 0;
    std::uint64_t after = 0;
    bool succeeded = true;    ///< whether a compare_exchange swapped, or whether a thread slept in a futex_wait
    bool buffered = false;    ///< whether a store went to the buffer, or a load came from the buffer
    ProcessSet affected = 0;  ///< the threads that a futex_wake_all woke up
};

/// One operation of a schedule, which is one line of a report.
struct Step {
    std::size_t process = 0;
    Operation operation;
    Outcome outcome;
};

/// A location that a transition reads or writes. Two transitions of different processes commute if they only read the
/// locations that they share.
struct Access {
    /// The location 2 × object is the object's value, and 2 × object + 1 is the set of threads that sleep on the
    /// object.
    std::uint32_t location = 0;
    bool writes = false;
};
using Footprint = std::vector<Access>;

[[nodiscard]] inline bool conflict(const Footprint& a, const Footprint& b) {
    for (const Access& one : a) {
        for (const Access& other : b) {
            if (one.location == other.location && (one.writes || other.writes)) {
                return true;
            }
        }
    }
    return false;
}

/// A vector clock of some event: for each process, the number of its transitions that happened before this event.
template <std::size_t Count>
struct VectorClock {
    std::array<std::uint32_t, Count> at{};

    void join(const VectorClock& other) {
        for (std::size_t i = 0; i < Count; ++i) {
            at[i] = at[i] < other.at[i] ? other.at[i] : at[i];
        }
    }
    [[nodiscard]] bool covers(std::size_t process, std::uint32_t time) const { return at[process] >= time; }
};

}  // namespace rueda::explorer
