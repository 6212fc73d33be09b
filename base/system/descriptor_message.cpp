// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The Rueda authors
#include "base/system/descriptor_message.hpp"

#include <sys/socket.h>

#include <array>
#include <cerrno>
#include <cstring>

namespace rueda::base {
namespace {

/// A buffer for control data, with the alignment that cmsg(3) requires.
struct ControlBuffer {
    alignas(cmsghdr) std::array<char, CMSG_SPACE(kMostDescriptors * sizeof(int))> bytes{};
};

msghdr message_of(std::span<iovec> parts) {
    msghdr message{};
    message.msg_iov = parts.data();
    message.msg_iovlen = parts.size();
    return message;
}

void take_fds(msghdr& message, std::vector<UniqueFd>& fds) {
    // allocated before the loop, because received descriptors would be lost if an allocation failed in the loop
    fds.reserve(kMostDescriptors);
    for (cmsghdr* header = CMSG_FIRSTHDR(&message); header != nullptr; header = CMSG_NXTHDR(&message, header)) {
        if (header->cmsg_level != SOL_SOCKET || header->cmsg_type != SCM_RIGHTS) {
            continue;
        }
        const std::size_t count = (header->cmsg_len - CMSG_LEN(0)) / sizeof(int);
        for (std::size_t i = 0; i < count; ++i) {
            int fd = -1;
            std::memcpy(&fd, CMSG_DATA(header) + i * sizeof(int), sizeof fd);
            fds.emplace_back(fd);
        }
    }
}

}  // namespace

ssize_t send_with_descriptors(int socket, std::span<iovec> parts, std::span<const int> fds) {
    if (fds.size() > kMostDescriptors) {
        errno = EINVAL;
        return -1;
    }
    ControlBuffer control;
    msghdr message = message_of(parts);
    if (!fds.empty()) {
        message.msg_control = control.bytes.data();
        message.msg_controllen = CMSG_SPACE(fds.size_bytes());
        cmsghdr* const header = CMSG_FIRSTHDR(&message);
        header->cmsg_level = SOL_SOCKET;
        header->cmsg_type = SCM_RIGHTS;
        header->cmsg_len = CMSG_LEN(fds.size_bytes());
        std::memcpy(CMSG_DATA(header), fds.data(), fds.size_bytes());
    }
    return ::sendmsg(socket, &message, MSG_DONTWAIT | MSG_NOSIGNAL);
}

ssize_t receive_with_descriptors(int socket, std::span<iovec> parts, Attachments& attachments) {
    attachments.fds.clear();
    ControlBuffer control;
    msghdr message = message_of(parts);
    message.msg_control = control.bytes.data();
    message.msg_controllen = control.bytes.size();
    const ssize_t received = ::recvmsg(socket, &message, MSG_DONTWAIT | MSG_CMSG_CLOEXEC);
    attachments.flags = received < 0 ? 0 : message.msg_flags;
    if (received >= 0 && message.msg_controllen > 0) {
        take_fds(message, attachments.fds);
    }
    return received;
}

}  // namespace rueda::base
