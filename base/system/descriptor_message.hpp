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

/// The facts about a received message, apart from its bytes.
struct Attachments {
    std::vector<UniqueFd> fds;  ///< closed on exec
    int flags = 0;              ///< MSG_TRUNC: the bytes did not fit; MSG_CTRUNC: some files did not fit
};

/// Sends `parts` as one message, with the files of `fds`, at most kMostDescriptors. The files still belong to the
/// caller. There must be at least one byte. The function never blocks, and raises no SIGPIPE. It returns the same
/// values as sendmsg(2), and sets errno in the same way.
ssize_t send_with_descriptors(int socket, std::span<iovec> parts, std::span<const int> fds);

/// Receives a message into `parts`. The function never blocks. It returns the same values as recvmsg(2), and sets errno
/// in the same way.
ssize_t receive_with_descriptors(int socket, std::span<iovec> parts, Attachments& attachments);

}  // namespace rueda::base
