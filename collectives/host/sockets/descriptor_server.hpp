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

/// Sends a descriptor to every process of this user that connects to `name`, until the server is destroyed. The server
/// has its own thread, because ranks may fail before they connect, so the number of connections is unknown. The thread
/// receives no signals. Threads: start and destroy it from one thread.
class DescriptorServer {
public:
    /// `fd` must stay open as long as the server lives.
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

/// Receives the descriptor. The listening process must be the process `leader_pid`.
[[nodiscard]] Result<base::UniqueFd> fetch_descriptor(const std::string& name, int leader_pid, Deadline deadline);

}  // namespace rueda::collectives
