// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The Rueda authors
#pragma once

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "base/network/proving_socket.hpp"
#include "base/security/message_codes.hpp"
#include "base/status.hpp"
#include "collectives/tcp/link_header.hpp"

namespace rueda::collectives {

/// A TCP connection between two leaders, after both sides have proved that they know the secret of the job. Each
/// message ends with an authentication code, so no other host can change, invent, repeat or leave out messages. No
/// function blocks. Threads: only one thread may use an object.
class LeaderLink {
public:
    struct Message {
        LinkHeader header;
        std::string content;
    };

    /// `most_bytes` is the maximum length of a message's content that this side accepts.
    LeaderLink(base::ProvenConnection connection, std::size_t most_bytes);

    [[nodiscard]] int fd() const { return socket_.value(); }
    /// Closes the connection. The other side then finds that the connection has ended.
    void close() { socket_.reset(); }
    /// Sets a limit for the silence of the other host: if it acknowledges nothing for this time, the kernel ends the
    /// connection.
    void limit_silence(std::chrono::milliseconds limit) const;

    /// Adds a message to the output, and gives the kernel as much of the output as it takes now. Returns a position in
    /// the output. The message has been given to the kernel when has_sent() returns true for this position.
    [[nodiscard]] std::uint64_t send(const LinkHeader& header, std::string_view content);
    /// Gives the kernel as much of the output as it takes now. This function reports no failure. The caller must first
    /// read the messages that arrived before the failure, and receive() then finds the failure.
    void flush();
    [[nodiscard]] bool has_output() const { return !output_.empty(); }
    /// Whether the kernel has taken all bytes up to `position`. Also returns true if the connection has ended, so that
    /// no caller waits for ever.
    [[nodiscard]] bool has_sent(std::uint64_t position) const { return cannot_send_ || sent_ >= position; }

    /// Reads what has arrived. Returns the complete messages in their order. Afterwards the kernel reports the socket
    /// as readable when bytes of a further message arrive. Exception: a single message of at most
    /// Transport::kQuietBytes is not reported. Such a message is read together with the message that follows it, or by
    /// the next call.
    [[nodiscard]] std::vector<Message> receive();
    /// Returns the reason why no more messages will arrive, or success if the connection is open. The messages that
    /// receive() has returned are valid in any case.
    [[nodiscard]] const Status& ended() const { return ended_; }

private:
    [[nodiscard]] bool read_some();
    [[nodiscard]] std::optional<Message> take_message();
    void be_readable_from(std::size_t bytes);

    base::UniqueFd socket_;
    base::MessageCodes sending_;
    base::MessageCodes receiving_;
    std::size_t most_bytes_;
    std::string output_;
    std::uint64_t queued_ = 0;  ///< how many bytes were ever added to the output
    std::uint64_t sent_ = 0;    ///< how many bytes of the output the kernel has ever taken
    bool cannot_send_ = false;
    std::vector<char> input_;
    std::size_t begin_ = 0;  ///< The bytes of `input_` in [begin_, end_) were read, but not yet returned as a message.
    std::size_t end_ = 0;
    std::size_t readable_from_ = 1;  ///< The kernel reports the socket as readable if at least this number of bytes can
                                     ///< be read.
    Status ended_;
};

}  // namespace rueda::collectives
