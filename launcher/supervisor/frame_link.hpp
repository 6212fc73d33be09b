// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The Rueda authors
#pragma once

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "base/status.hpp"
#include "base/unique_fd.hpp"
#include "launcher/supervisor/supervisor_protocol.hpp"

namespace rueda::launcher {

/// One message between ruedarun and a supervisor on another host.
struct Frame {
    SupervisorWord word = SupervisorWord::hello;
    std::int32_t value = 0;
    std::string payload;
};

/// A TCP connection that carries frames. Nothing blocks: what cannot be sent now is queued. Threads: one.
class FrameLink {
public:
    /// Of one frame. Longer texts go in several.
    static constexpr std::size_t kMostPayload = std::size_t{64} << 10;
    /// A sender that can wait (output of a program) is to do so beyond this.
    static constexpr std::size_t kLongQueue = std::size_t{256} << 10;

    /// For expect_answers(): an acknowledgement is the kernel's answer, and does not wait for a busy process. A network
    /// that is merely congested gets time for three retransmissions.
    static constexpr std::chrono::milliseconds kAnswerTime{2000};

    FrameLink() = default;
    explicit FrameLink(base::UniqueFd socket);

    [[nodiscard]] int fd() const { return socket_.value(); }
    [[nodiscard]] bool is_open() const { return socket_.is_open(); }
    void close() { socket_.reset(); }
    void send(SupervisorWord word, std::int32_t value, std::string_view payload = {});
    /// From now on the link is closed where the other end's host does not acknowledge something within kAnswerTime.
    /// That counts for what was sent before as well.
    void expect_answers() const;
    /// Sends what does not block; the link is closed where that fails.
    void flush();
    [[nodiscard]] bool has_queue() const { return !queue_.empty(); }
    [[nodiscard]] bool is_congested() const { return queue_.size() > kLongQueue; }
    /// What has come, whole frames only. The link is closed where the other end has gone, or what it says is no frame
    /// of at most `most_payload` bytes.
    [[nodiscard]] std::vector<Frame> receive(std::size_t most_payload = kMostPayload);

private:
    [[nodiscard]] bool take_frame(std::size_t most_payload, std::vector<Frame>& frames);

    base::UniqueFd socket_;
    std::string queue_;
    std::string received_;
};

/// Where ruedarun listens for supervisors of other hosts, and the secret that they have to know.
struct ControlAddress {
    std::string secret;
    std::vector<std::string> endpoints;  ///< "10.0.0.1:4711", "[fd00::1]:4711"
};

/// As the variable RUEDARUN_CONTROL has it: "secret@endpoint,endpoint".
[[nodiscard]] std::string format_control_address(const ControlAddress& address);
[[nodiscard]] Result<ControlAddress> parse_control_address(std::string_view text);

/// Listens at every address of the named interfaces, or of all that lead out of this host; where there are none, at the
/// loopback. `endpoints` gets where.
[[nodiscard]] Result<std::vector<base::UniqueFd>> listen_on_network(const std::vector<std::string>& interfaces,
                                                                    std::vector<std::string>& endpoints);

/// Tries all endpoints at the same time and takes the first that answers.
[[nodiscard]] Result<base::UniqueFd> connect_over_network(const std::vector<std::string>& endpoints);

/// The numeric addresses of both ends of a TCP connection; empty where it has ended.
struct ConnectionEnds {
    std::string own;
    std::string peer;
};
[[nodiscard]] ConnectionEnds ends_of_connection(int socket);

/// In a time that does not depend on where the texts differ.
[[nodiscard]] bool is_same_secret(std::string_view left, std::string_view right);

}  // namespace rueda::launcher
