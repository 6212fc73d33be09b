// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The Rueda authors
#pragma once

#include <chrono>
#include <deque>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/network/address_race.hpp"
#include "base/network/poll_set.hpp"
#include "base/network/proving_socket.hpp"
#include "launcher/connection/control_address.hpp"
#include "launcher/processes/acceptor.hpp"

namespace rueda::launcher {

/// The purpose of a reach test's handshakes. A proof for this purpose is not valid for a connection to ruedarun.
inline constexpr std::string_view kReachPurpose = "reach test of rank 0's host";

/// A test finds out which addresses of rank 0's host the other hosts can reach. This class is the side of the test in
/// the supervisor (parent) of rank 0. It listens at all addresses of the host. To each process that connects, it proves
/// that it knows the secret of the job, and does nothing else with the connection. Threads: only one thread may use an
/// object.
class ReachListener {
public:
    /// The maximum number of connections whose handshake has not ended. If another connection arrives, the oldest one
    /// is closed.
    static constexpr std::size_t kMost = 64;

    /// Makes an object that does not listen.
    ReachListener() = default;
    ReachListener(ControlListener listener, std::string secret, Acceptor::Say say);

    /// Returns the addresses with ports at which this object listens.
    [[nodiscard]] const std::vector<std::string>& endpoints() const { return endpoints_; }
    void add_to(base::PollSet& set);
    /// Closes the listening sockets and all connections.
    void close() { *this = ReachListener(); }

private:
    /// The fields to which callbacks refer. A ReachListener holds a pointer to them, so they keep their address when
    /// the ReachListener is moved.
    struct Visitors {
        std::string secret;
        std::deque<base::ProvingSocket> sockets;
        void accept(base::UniqueFd socket);
    };

    std::vector<std::string> endpoints_;
    std::unique_ptr<Visitors> visitors_;
    Acceptor acceptor_;
};

/// This class is the part of the reach test that runs in a supervisor of another host. It tries all addresses of rank
/// 0's host at the same time. Threads: only one thread may use an object.
class ReachProbe {
public:
    /// The time limits. An address that can be reached usually answers within a few milliseconds. Packets to other
    /// addresses may vanish, so the test does not wait long for the remaining addresses after one has answered.
    struct Times {
        std::chrono::milliseconds longest{1500};
        std::chrono::milliseconds after_first{300};
    };

    ReachProbe(std::vector<std::string> endpoints, const std::string& secret, const Times& times);

    void add_to(base::PollSet& set);
    /// Call this after each wait of the PollSet. When the test is over, returns the addresses at which rank 0's
    /// supervisor has proved that it knows the secret. Returns nothing before that.
    [[nodiscard]] std::optional<std::vector<std::string>> advance(base::PollSet::TimePoint now);

private:
    const Times times_;
    base::AddressRace race_;
    base::PollSet::TimePoint deadline_;
    bool has_first_ = false;
};

/// Encodes addresses with ports as the payload of a frame.
[[nodiscard]] std::string encode_endpoints(const std::vector<std::string>& endpoints);
/// Parses the text of encode_endpoints(). Leaves out texts that are no network addresses with ports, and addresses
/// after the first base::kMostEndpoints. Unlike base::tcp_endpoints(), this function still returns the other addresses
/// if one address is wrong.
[[nodiscard]] std::vector<std::string> parse_endpoints(std::string_view text);

}  // namespace rueda::launcher
