// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The Rueda authors
#pragma once

#include <linux/futex.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <atomic>
#include <chrono>
#include <climits>
#include <cstdint>
#include <ctime>

namespace rueda::base {

/// The longest timeout of one futex call. The caller checks its condition again after each call.
inline constexpr std::chrono::nanoseconds kLongestSleep = std::chrono::hours(1);

/// The atomic operations that the released library uses. Protocols in shared memory are templates over such a class.
/// Tests can then run the same code with other atomics, which try all interleavings of the threads.
///
/// The futexes work between processes. std::atomic::wait does not, because it may use a private futex, which works only
/// within one process.
struct StdAtomics {
    template <class T>
    using Atomic = std::atomic<T>;

    static_assert(std::atomic<std::uint32_t>::is_always_lock_free && std::atomic<std::uint64_t>::is_always_lock_free,
                  "atomics in shared memory must not hide a lock of one process");

    /// Sleeps while `word` holds `expected`, but not longer than `timeout`. The function may also return early without
    /// a reason, so the caller must check its condition again.
    static void futex_wait(Atomic<std::uint32_t>& word, std::uint32_t expected,
                           std::chrono::nanoseconds timeout = kLongestSleep) {
        if (timeout <= std::chrono::nanoseconds::zero()) {
            return;
        }
        timeout = timeout < kLongestSleep ? timeout : kLongestSleep;
        const auto seconds = std::chrono::duration_cast<std::chrono::seconds>(timeout);
        timespec limit{};
        limit.tv_sec = seconds.count();
        limit.tv_nsec = (timeout - seconds).count();
        syscall(SYS_futex, reinterpret_cast<std::uint32_t*>(&word), FUTEX_WAIT, expected, &limit, nullptr, 0);
    }
    static void futex_wake_all(Atomic<std::uint32_t>& word) {
        syscall(SYS_futex, reinterpret_cast<std::uint32_t*>(&word), FUTEX_WAKE, INT_MAX, nullptr, nullptr, 0);
    }
    /// Tells the CPU that this thread spins. This is not a system call.
    static void pause() {
#if defined(__x86_64__) || defined(__i386__)
        __builtin_ia32_pause();
#elif defined(__aarch64__)
        asm volatile("yield");
#endif
    }
};

/// The size in bytes of a cache line, the unit that cores transfer between each other (on all x86-64 and most AArch64
/// CPUs). The layout of shared memory depends on this constant. std::hardware_destructive_interference_size cannot be
/// used, because its value depends on compiler flags.
inline constexpr std::size_t kCacheLine = 64;

}  // namespace rueda::base
