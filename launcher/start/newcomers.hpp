// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The Rueda authors
#pragma once

#include <chrono>
#include <cstddef>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "base/network/poll_set.hpp"
#include "base/network/proving_socket.hpp"
#include "base/unique_fd.hpp"
#include "launcher/supervisor/frame_link.hpp"

namespace rueda::launcher {

struct NewcomerLimits {
    /// The maximum number of newcomers.
    std::size_t most = 4096;
    /// How long the process at a new connection may take to prove that it knows the secret, and to send its first
    /// frame, the hello.
    std::chrono::milliseconds time{10000};
};

/// Raises the soft limit of descriptors. Each rank needs a connection and two pipes, so the usual 1024 is too low for
/// large jobs. The limit is raised only as far as needed, because mpirun and the ranks inherit it.
void raise_descriptor_limit(int ranks);

/// The connections to ruedarun whose processes have not yet named their ranks. Any process of the network may make such
/// a connection. Until the process has proved that it knows the secret of the job, only the messages of the handshake
/// are read. If the process does not prove this, the connection is closed, and the process has had no effect on the
/// job. Threads: only one thread may use an object.
class Newcomers {
public:
    /// The object calls this function with each connection whose process has proved that it knows the secret, and has
    /// sent its hello.
    using OnHello = std::function<void(FrameLink link, const Frame& hello)>;

    Newcomers(std::string secret, OnHello on_hello, const NewcomerLimits& limits = NewcomerLimits());
    /// Takes a new connection. If there are too many newcomers, closes the oldest connection whose process has not
    /// proved that it knows the secret. A supervisor of the job proves this at once, so the closed connection belongs
    /// to a process outside the job.
    void accept(base::UniqueFd socket);
    void add_to(base::PollSet& set);
    /// Closes the connections whose time limit has passed.
    void expire(base::PollSet::TimePoint now);
    /// Returns the number of open connections.
    [[nodiscard]] std::size_t count() const;

private:
    struct Newcomer {
        base::ProvingSocket proving;
        FrameLink link;  ///< open from the proof on
        base::PollSet::TimePoint deadline;

        [[nodiscard]] bool is_open() const { return proving.is_open() || link.is_open(); }
        [[nodiscard]] int fd() const { return link.is_open() ? link.fd() : proving.fd(); }
        void close() {
            proving.close();
            link.close();
        }
    };

    [[nodiscard]] bool make_room();
    void advance(Newcomer& newcomer);

    const std::string secret_;
    const OnHello on_hello_;
    const NewcomerLimits limits_;
    std::vector<std::unique_ptr<Newcomer>> newcomers_;  ///< the oldest first
};

}  // namespace rueda::launcher
