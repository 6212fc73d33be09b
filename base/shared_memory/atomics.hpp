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

/// The longest sleep that a futex is asked for; callers look again afterwards.
inline constexpr std::chrono::nanoseconds kLongestSleep = std::chrono::hours(1);

/// The atomics policy of all code that ships. Protocols in shared memory are templates over such a policy, so that
/// tests can run the same code under an explorer of interleavings.
///
/// The futexes are shared ones. std::atomic::wait would not do: it may use a private futex, which works within one
/// process only.
struct StdAtomics {
    template <class T>
    using Atomic = std::atomic<T>;

    static_assert(std::atomic<std::uint32_t>::is_always_lock_free && std::atomic<std::uint64_t>::is_always_lock_free,
                  "atomics in shared memory must not hide a lock of one process");

    /// Sleeps while `word` holds `expected`, at most for `timeout`. It may return for any reason or none, so the caller
    /// must look again.
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
    /// One turn of a spin loop. It informs the CPU, not the kernel.
    static void pause() {
#if defined(__x86_64__) || defined(__i386__)
        __builtin_ia32_pause();
#elif defined(__aarch64__)
        asm volatile("yield");
#endif
    }
};

/// The number of bytes that two cores pass between them as one unit (on all x86-64 and most AArch64). It is a constant
/// of the shared layout. std::hardware_destructive_interference_size is not used, because it depends on compiler flags.
inline constexpr std::size_t kCacheLine = 64;

}  // namespace rueda::base
