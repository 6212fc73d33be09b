// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The Rueda authors
// Fuzzes data that arrive through sockets in pieces of any length: frames of the rendezvous, frames of ruedarun's
// supervisors, and messages with open files. The pieces must not change the result, and no descriptor may leak.
#include <fcntl.h>
#include <sys/socket.h>
#include <sys/uio.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <span>
#include <string>
#include <vector>

#include "base/system/descriptor_message.hpp"
#include "collectives/host/sockets/frame_stream.hpp"
#include "launcher/supervisor/frame_link.hpp"
#include "tests/fuzz/input.hpp"

namespace {

using namespace rueda;
using fuzz::expect;

struct Sockets {
    explicit Sockets(int type) {
        std::array<int, 2> fds{};
        expect(::socketpair(AF_UNIX, type | SOCK_CLOEXEC | SOCK_NONBLOCK, 0, fds.data()) == 0);
        theirs.reset(fds[0]);
        mine.reset(fds[1]);
    }
    void write(std::span<const std::byte> bytes) const {
        expect(::send(theirs.value(), bytes.data(), bytes.size(), MSG_NOSIGNAL) == static_cast<ssize_t>(bytes.size()));
    }
    base::UniqueFd theirs;
    base::UniqueFd mine;
};

/// Sends the bytes in pieces of `cut` bytes, or at once if `cut` is 0, and calls `take` after each piece.
template <class Take>
void in_pieces(const Sockets& sockets, std::span<const std::byte> bytes, std::size_t cut, Take&& take) {
    const std::size_t piece = cut == 0 ? std::max<std::size_t>(bytes.size(), 1) : cut;
    for (std::size_t begin = 0; begin < bytes.size(); begin += piece) {
        sockets.write(bytes.subspan(begin, std::min(piece, bytes.size() - begin)));
        if (!take()) {
            return;
        }
    }
}

/// Returns a text that contains all received frames and, if the reception failed, its error.
std::string frames_of_rendezvous(std::span<const std::byte> bytes, std::size_t cut) {
    Sockets sockets(SOCK_STREAM);
    collectives::FrameSocket socket(std::move(sockets.mine));
    collectives::FrameReceiver receiver;
    std::string all;
    in_pieces(sockets, bytes, cut, [&] {
        for (;;) {
            const Result<bool> complete = receiver.advance(socket);
            if (!complete.is_ok()) {
                all += complete.status().message();
                return false;
            }
            if (!complete.value()) {
                return true;
            }
            const collectives::Frame frame = receiver.take();
            expect(frame.body.size() == frame.header.length);
            all += std::to_string(frame.body.size()) + ";";
            all.append(reinterpret_cast<const char*>(frame.body.data()), frame.body.size());
        }
    });
    return all;
}

std::string frames_of_supervisor(std::span<const std::byte> bytes, std::size_t cut) {
    Sockets sockets(SOCK_STREAM);
    launcher::FrameLink link(std::move(sockets.mine));
    std::string all;
    in_pieces(sockets, bytes, cut, [&] {
        for (const launcher::Frame& frame : link.receive(1000)) {
            expect(frame.payload.size() <= 1000);
            all +=
                std::to_string(static_cast<int>(frame.kind)) + "," + std::to_string(frame.value) + ":" + frame.payload;
        }
        return link.is_open();
    });
    all += link.is_open() ? "open" : "closed";
    return all;
}

std::size_t lowest_free_fd() {
    const base::UniqueFd probe(::open("/dev/null", O_RDONLY | O_CLOEXEC));
    return static_cast<std::size_t>(probe.value());
}

constexpr std::size_t kMostFiles = 8;

/// Sends one message with `files` open files.
void send_files(const Sockets& sockets, std::span<const std::byte> bytes, std::size_t files) {
    alignas(cmsghdr) std::array<char, CMSG_SPACE(kMostFiles * sizeof(int))> control{};
    std::array<int, kMostFiles> fds{};
    fds.fill(sockets.theirs.value());
    iovec part{const_cast<std::byte*>(bytes.data()), bytes.size()};
    msghdr message{};
    message.msg_iov = &part;
    message.msg_iovlen = 1;
    if (files > 0) {
        message.msg_control = control.data();
        message.msg_controllen = CMSG_SPACE(files * sizeof(int));
        cmsghdr* const header = CMSG_FIRSTHDR(&message);
        header->cmsg_level = SOL_SOCKET;
        header->cmsg_type = SCM_RIGHTS;
        header->cmsg_len = CMSG_LEN(files * sizeof(int));
        std::copy_n(reinterpret_cast<const char*>(fds.data()), files * sizeof(int),
                    reinterpret_cast<char*>(CMSG_DATA(header)));
    }
    expect(::sendmsg(sockets.theirs.value(), &message, MSG_NOSIGNAL) == static_cast<ssize_t>(bytes.size()));
}

/// Receives a message. The input may contain more files than the receiver accepts, or more bytes than fit.
void take_files(std::span<const std::byte> bytes, std::size_t files) {
    const std::size_t before = lowest_free_fd();
    {
        const Sockets sockets(SOCK_SEQPACKET);
        send_files(sockets, bytes, files);
        std::array<std::byte, 32> room{};
        iovec into{room.data(), room.size()};
        base::Attachments attachments;
        const ssize_t received = base::receive_with_descriptors(sockets.mine.value(), std::span(&into, 1), attachments);
        expect(received == static_cast<ssize_t>(std::min(bytes.size(), room.size())));
        expect(((attachments.flags & MSG_TRUNC) != 0) == (bytes.size() > room.size()));
        expect(((attachments.flags & MSG_CTRUNC) != 0) == (files > base::kMostDescriptors));
        expect(attachments.fds.size() == std::min(files, base::kMostDescriptors));
    }
    expect(lowest_free_fd() == before);
}

}  // namespace

/// The first byte chooses the kind of connection, and the second byte chooses how the stream is cut.
extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
    if (size < 3 || size > 16'384) {
        return 0;
    }
    const auto bytes = std::as_bytes(std::span(data + 2, size - 2));
    const std::size_t cut = data[1] % 24 + 1U;
    switch (data[0] % 3) {
        case 0:
            expect(frames_of_rendezvous(bytes, 0) == frames_of_rendezvous(bytes, cut));
            break;
        case 1:
            expect(frames_of_supervisor(bytes, 0) == frames_of_supervisor(bytes, cut));
            break;
        default:
            take_files(bytes, cut % kMostFiles);
    }
    return 0;
}
