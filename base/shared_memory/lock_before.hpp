// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The Rueda authors
#pragma once

#include <chrono>
#include <mutex>
#include <optional>
#include <thread>

namespace rueda::base {

/// Locks the mutex. If the deadline passes before the mutex is free, returns a lock object that does not hold the
/// mutex. Without a deadline, waits until the mutex is free.
///
/// Use this for mutexes that are held for long and for which threads rarely compete, such as the mutex of shutdown(). A
/// waiting thread tries again every few milliseconds. With std::timed_mutex, the thread would be woken at once. But
/// std::timed_mutex calls pthread_mutex_clocklock, which ThreadSanitizer of clang 14 does not know, so ThreadSanitizer
/// would report every lock as an error.
[[nodiscard]] inline std::unique_lock<std::mutex> lock_before(
    std::mutex& mutex, std::optional<std::chrono::steady_clock::time_point> deadline) {
    constexpr std::chrono::milliseconds kPause{2};
    if (!deadline) {
        return std::unique_lock(mutex);
    }
    std::unique_lock lock(mutex, std::try_to_lock);
    while (!lock.owns_lock() && std::chrono::steady_clock::now() < *deadline) {
        std::this_thread::sleep_for(kPause);
        static_cast<void>(lock.try_lock());
    }
    return lock;
}

}  // namespace rueda::base
