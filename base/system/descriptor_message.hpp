// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The Rueda authors
// Messages over Unix sockets that carry open files (SCM_RIGHTS, unix(7)).
#pragma once

#include <sys/types.h>
#include <sys/uio.h>

#include <cstddef>
#include <span>
#include <vector>

#include "base/unique_fd.hpp"

namespace rueda::base {

/// The maximum number of files in one message.
inline constexpr std::size_t kMostDescriptors = 2;

/// The files and flags that came with a received message.
struct Attachments {
    std::vector<UniqueFd> fds;  ///< the received files, which are closed on exec
    int flags = 0;              ///< MSG_TRUNC: the bytes did not fit; MSG_CTRUNC: some files did not fit
};

/// Sends `parts` as one message, together with at most kMostDescriptors files. The caller keeps its files. There must
/// be at least one byte. The function never blocks and raises no SIGPIPE. Its result and errno are those of sendmsg(2).
ssize_t send_with_descriptors(int socket, std::span<iovec> parts, std::span<const int> fds);

/// Receives a message into `parts`. The function never blocks. Its result and errno are those of recvmsg(2).
ssize_t receive_with_descriptors(int socket, std::span<iovec> parts, Attachments& attachments);

}  // namespace rueda::base
