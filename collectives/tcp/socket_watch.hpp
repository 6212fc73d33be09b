// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The Rueda authors
#pragma once

#include <atomic>
#include <functional>
#include <memory>
#include <thread>

#include "base/status.hpp"
#include "base/unique_fd.hpp"

namespace rueda::collectives {

/// Calls a function when one of several sockets becomes readable. The threads of a rank sleep on futexes, which ranks
/// of the same host wake. No thread can sleep on a futex and on sockets at the same time, so this object has a thread
/// that sleeps on the sockets (epoll), and calls the function that wakes the others.
///
/// The function is called once after each arm(). Level-triggered: it is also called for bytes that arrived before
/// arm(), so no order of arm() and the arrival can lose a wake-up.
///
/// Threads: only one thread at a time may call the functions, except that stop() may also run while the object's own
/// thread does.
class SocketWatch {
public:
    [[nodiscard]] static Result<std::unique_ptr<SocketWatch>> create();
    ~SocketWatch();
    SocketWatch(const SocketWatch&) = delete;
    SocketWatch& operator=(const SocketWatch&) = delete;

    /// Starts the thread. `ring` is called by it, and must not block.
    [[nodiscard]] Status start(std::function<void()> ring);
    /// Ends the thread, and closes this object's descriptors. Afterwards arm() and disarm() do nothing.
    void stop();

    [[nodiscard]] Status add(int socket);
    void remove(int socket);
    /// Whether the watch also looks for room in the socket's send buffer.
    void watch_output(int socket, bool wanted);

    void arm() noexcept;
    void disarm() noexcept;

private:
    SocketWatch(base::UniqueFd sockets, base::UniqueFd events, base::UniqueFd stop);
    void run() noexcept;
    void change_arming(bool is_armed) noexcept;

    base::UniqueFd sockets_;  ///< an epoll descriptor with all sockets
    base::UniqueFd events_;   ///< an epoll descriptor with `sockets_`, one-shot, and with `stop_`
    base::UniqueFd stop_;     ///< an eventfd
    std::function<void()> ring_;
    /// Whether the kernel will report the next event. The caller of arm() stores its attention state before it loads
    /// this flag; the thread clears this flag before the ring loads the attention state. All four accesses are seq_cst.
    /// So if arm() still finds the flag set, the ring sees the new state.
    std::atomic<bool> armed_{false};
    std::atomic<bool> stopped_{false};  // release: stop(); acquire: arm(), disarm() and run()
    std::thread thread_;
};

}  // namespace rueda::collectives
