// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The Rueda authors
#pragma once

#include <atomic>
#include <chrono>
#include <functional>
#include <memory>
#include <mutex>
#include <thread>

#include "base/status.hpp"
#include "base/unique_fd.hpp"

namespace rueda::collectives {

/// Calls a function when one of several sockets becomes readable. The threads of a rank sleep on futexes, which ranks
/// of the same host wake. No thread can sleep on a futex and on sockets at the same time. This object therefore has a
/// thread that sleeps on the sockets (epoll). When a socket becomes readable, this thread calls the function that wakes
/// the other threads.
///
/// The function is called once after each arm(). It is also called for bytes that arrived before arm() (the watch is
/// level-triggered). So a wake-up is never lost, whether the bytes arrive before or after arm().
///
/// Threads: only one thread at a time may call the functions. The object's own thread may be running during each call,
/// also during stop().
class SocketWatch {
public:
    [[nodiscard]] static Result<std::unique_ptr<SocketWatch>> create();
    ~SocketWatch();
    SocketWatch(const SocketWatch&) = delete;
    SocketWatch& operator=(const SocketWatch&) = delete;

    /// Starts the thread. The thread calls `ring`, which must not block.
    [[nodiscard]] Status start(std::function<void()> ring);
    /// Ends the thread, and closes this object's descriptors. Afterwards arm() and disarm() do nothing.
    void stop();

    [[nodiscard]] Status add(int socket);
    void remove(int socket);
    /// Whether the watch also looks for room in the socket's send buffer.
    void watch_output(int socket, bool wanted);

    void arm() noexcept;
    /// Lets the object's own thread call arm() after kSoon, unless disarm() is called before. The delay avoids needless
    /// wake-ups: a thread that polls for the next operation within kSoon calls disarm(), and finds the messages itself.
    void arm_soon() noexcept;
    void disarm() noexcept;

private:
    /// The delay of arm_soon(). It is long compared with the pause between two blocking operations of a loop, and short
    /// compared with a training step.
    static constexpr std::chrono::milliseconds kSoon{2};

    SocketWatch(base::UniqueFd sockets, base::UniqueFd events, base::UniqueFd stop, base::UniqueFd timer);
    void run() noexcept;
    void look_at_timer() noexcept;
    void change_arming(bool is_armed) noexcept;

    base::UniqueFd sockets_;  ///< an epoll descriptor with all sockets
    base::UniqueFd events_;   ///< an epoll descriptor that watches two descriptors: `sockets_` (one-shot) and `stop_`
    base::UniqueFd stop_;     ///< an eventfd
    base::UniqueFd timer_;    ///< a timerfd
    std::function<void()> ring_;
    /// Whether the kernel will report the next event. The caller of arm() first stores its attention state, and then
    /// loads this flag. The object's thread first clears this flag, and then calls `ring`, which loads the attention
    /// state. All four accesses are seq_cst. So if arm() still finds the flag set, `ring` sees the new state.
    std::atomic<bool> armed_{false};
    /// A thread holds this mutex while it first changes `armed_` and then the kernel's list. Otherwise the object's
    /// thread could arm the watch between the two steps of disarm(). `armed_` would then stay true, but the kernel
    /// would report nothing.
    std::mutex arming_mutex_;
    /// Whether the object's thread must arm the watch when the timer ends. arm_soon() sets this flag, and then starts
    /// the timer unless the timer runs already. When the timer ends, the thread clears `timer_runs_`, and then loads
    /// this flag. All four accesses are seq_cst. So either the thread sees the flag, or arm_soon() starts the timer
    /// again.
    std::atomic<bool> arms_soon_{false};
    std::atomic<bool> timer_runs_{false};
    std::atomic<bool> stopped_{false};  // stop() sets this flag with release. arm(), disarm() and run() load it with
                                        // acquire.
    std::thread thread_;
};

}  // namespace rueda::collectives
