// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The Rueda authors
#pragma once

#include <chrono>
#include <functional>
#include <string_view>
#include <vector>

#include "base/network/poll_set.hpp"
#include "base/unique_fd.hpp"

namespace rueda::launcher {

/// Accepts connections on listening sockets, in an event loop.
///
/// If descriptors or memory are used up, a connection cannot be accepted and stays in the kernel's queue. poll() would
/// report this connection again at once, so the acceptor ignores its sockets for a while: first for 10 ms, and after
/// each further failure twice as long, up to a second. It prints one line for each shortage.
///
/// Threads: only one thread may use an object.
class Acceptor {
public:
    using OnAccepted = std::function<void(base::UniqueFd socket)>;
    using Say = std::function<void(std::string_view line)>;

    /// `on_accepted` is called with each new socket, which is non-blocking and closed on exec. `say` prints a line for
    /// the user.
    Acceptor(std::vector<base::UniqueFd> listeners, OnAccepted on_accepted, Say say);
    /// Makes an acceptor without listening sockets.
    Acceptor() = default;

    void add_to(base::PollSet& set);

private:
    void accept_one(int listener);
    void pause(int error);

    std::vector<base::UniqueFd> listeners_;
    OnAccepted on_accepted_;
    Say say_;
    std::chrono::milliseconds pause_{0};  ///< the last pause; 0 if the last accept succeeded
    base::PollSet::TimePoint paused_until_ = {};
};

}  // namespace rueda::launcher
