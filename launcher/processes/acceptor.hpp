// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The Rueda authors
#pragma once

#include <chrono>
#include <functional>
#include <string_view>
#include <vector>

#include "base/unique_fd.hpp"
#include "launcher/processes/poll_set.hpp"

namespace rueda::launcher {

/// Accepts connections on listening sockets, in an event loop.
///
/// A connection that cannot be accepted because descriptors or memory are used up stays in the kernel's queue, and
/// poll() would report it again at once. The acceptor then does not look at its listeners for a while: 10 ms first, and
/// twice as long after each further failure, up to a second. It says so in one line per shortage.
///
/// Threads: one.
class Acceptor {
public:
    using OnAccepted = std::function<void(base::UniqueFd socket)>;
    using Say = std::function<void(std::string_view line)>;

    /// `flags`: those of accept4. `say` prints a line for the user.
    Acceptor(std::vector<base::UniqueFd> listeners, int flags, OnAccepted on_accepted, Say say);
    /// Accepts nothing.
    Acceptor() = default;

    void add_to(PollSet& set);

private:
    void accept_one(int listener);
    void pause(int error);

    std::vector<base::UniqueFd> listeners_;
    int flags_ = 0;
    OnAccepted on_accepted_;
    Say say_;
    std::chrono::milliseconds pause_{0};  ///< the last one; 0: nothing has failed since the last connection
    PollSet::TimePoint paused_until_ = {};
};

}  // namespace rueda::launcher
