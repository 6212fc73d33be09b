// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The Rueda authors
#pragma once

#include <memory>
#include <string>
#include <thread>

#include "base/unique_fd.hpp"
#include "collectives/host/unix_socket.hpp"

namespace rueda::collectives {

/// 128 random bits in hexadecimal: a name that nobody else has, and nobody guesses.
[[nodiscard]] Result<std::string> random_token();

/// Hands a descriptor to every process of this user that connects to `name`, until it is destroyed. It has a thread of
/// its own, as the ranks that come may fail on their way and nobody knows how many will arrive; the thread takes no
/// signals. Threads: start and destroy from one.
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
    const base::UniqueFd stop_;  ///< an eventfd; readable when the thread shall end
    const int fd_;
    std::thread thread_;
};

/// The other end. `leader_pid` is who must be listening there.
[[nodiscard]] Result<base::UniqueFd> fetch_descriptor(const std::string& name, int leader_pid, Deadline deadline);

}  // namespace rueda::collectives
