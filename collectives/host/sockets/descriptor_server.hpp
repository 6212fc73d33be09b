// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The Rueda authors
#pragma once

#include <memory>
#include <string>
#include <thread>

#include "base/unique_fd.hpp"
#include "collectives/host/sockets/unix_socket.hpp"

namespace rueda::collectives {

/// Returns 128 random bits in hexadecimal: a unique name that other processes cannot guess.
[[nodiscard]] Result<std::string> random_token();

/// Sends a descriptor to every process that connects to `name`, if this user owns the process. The server does so until
/// it is destroyed. The server has its own thread, which receives no signals. The server cannot stop after a fixed
/// number of connections, because ranks may fail before they connect. Threads: the same thread starts and destroys the
/// server.
class DescriptorServer {
public:
    /// Starts a server. `fd` must stay open until the server is destroyed.
    [[nodiscard]] static Result<std::unique_ptr<DescriptorServer>> start(const std::string& name, int fd);
    DescriptorServer(const DescriptorServer&) = delete;
    DescriptorServer& operator=(const DescriptorServer&) = delete;
    ~DescriptorServer();

private:
    DescriptorServer(base::UniqueFd listener, base::UniqueFd stop, int fd);
    void serve() const;

    const base::UniqueFd listener_;
    const base::UniqueFd stop_;  ///< an eventfd that becomes readable when the thread has to end
    const int fd_;
    std::thread thread_;
};

/// Connects to a DescriptorServer and receives its descriptor. Fails if the server does not run in the process
/// `leader_pid`.
[[nodiscard]] Result<base::UniqueFd> fetch_descriptor(const std::string& name, int leader_pid, Deadline deadline);

}  // namespace rueda::collectives
