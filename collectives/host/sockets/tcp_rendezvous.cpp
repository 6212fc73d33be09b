// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The Rueda authors
#include "collectives/host/sockets/tcp_rendezvous.hpp"

#include <netinet/in.h>
#include <sys/socket.h>

#include <algorithm>
#include <chrono>
#include <optional>
#include <thread>
#include <utility>

#include "base/network/address_race.hpp"
#include "base/network/endpoint_list.hpp"
#include "base/network/poll_set.hpp"
#include "base/network/socket_address.hpp"

namespace rueda::collectives {
namespace {

using std::chrono::milliseconds;

/// The limit for a connection to one address in the first round. It grows from round to round: an address that never
/// answers must not delay the next round for long, because rank 0 may only now begin to listen at another address. A
/// slow network needs a longer round.
constexpr milliseconds kFirstRound{1000};
constexpr milliseconds kLongestRound{20'000};
/// The limit for rank 0's proof. Rank 0 answers at once, unless its host is very busy.
constexpr milliseconds kProofTime{10'000};

/// Listens at one address. The process that reserved the port (held_port) has a socket that is bound to it, and an
/// earlier job of this process may have connections with this port. With SO_REUSEADDR, neither prevents a listener.
base::UniqueFd listen_at_reserved(const base::SocketAddress& address) {
    base::UniqueFd listener = base::open_socket(address, SOCK_NONBLOCK);
    const int on = 1;
    const bool listens =
        listener.is_open() && ::setsockopt(listener.value(), SOL_SOCKET, SO_REUSEADDR, &on, sizeof on) == 0 &&
        (address.storage.ss_family != AF_INET6 ||
         ::setsockopt(listener.value(), IPPROTO_IPV6, IPV6_V6ONLY, &on, sizeof on) == 0) &&
        ::bind(listener.value(), address.raw(), address.size) == 0 && ::listen(listener.value(), SOMAXCONN) == 0;
    return listens ? std::move(listener) : base::UniqueFd();
}

std::vector<std::string> endpoints_of_rendezvous(const std::string& rendezvous) {
    return base::tcp_endpoints(rendezvous).value_or(std::vector<std::string>());
}

/// Tries all addresses once. Returns nothing if no address led to rank 0; `description` then says what happened at each
/// address. The arrival of a connection or of a proof ends each wait.
Result<std::optional<base::ProvenConnection>> try_addresses(const SocketControlPlaneOptions& options,
                                                            std::span<const std::string> endpoints,
                                                            milliseconds connect_time, Deadline deadline,
                                                            std::string& description) {
    base::AddressRace race(endpoints, options.secret, std::string(kRendezvousPurpose), {connect_time, kProofTime});
    while (race.is_pending() && !has_passed(deadline)) {
        base::PollSet set;
        set.wake_at(options.interruption ? std::min(deadline, deadline_in(kInterruptionInterval)) : deadline);
        race.add_to(set);
        set.wait_and_dispatch();
        race.check_deadlines(std::chrono::steady_clock::now());
        if (race.is_pending()) {
            RUEDA_RETURN_IF_FAILED(ask(options.interruption, options.rank, options.size));
        }
    }
    std::optional<base::ProvenConnection> connection = race.take();
    description = connection ? "" : race.description();
    return connection;
}

}  // namespace

Result<std::vector<base::UniqueFd>> listen_at_rendezvous(const std::string& rendezvous) {
    std::vector<base::UniqueFd> listeners;
    Status refused;
    for (const std::string& endpoint : endpoints_of_rendezvous(rendezvous)) {
        const std::optional<base::SocketAddress> address = base::parse_endpoint(endpoint);
        base::UniqueFd listener = address ? listen_at_reserved(*address) : base::UniqueFd();
        if (listener.is_open()) {
            listeners.push_back(std::move(listener));
        } else if (refused.is_ok()) {
            refused = system_failure(ErrorCode::unsupported, fmt::format("listen at {}", endpoint));
        }
    }
    if (!listeners.empty()) {
        return listeners;
    }
    return failure(ErrorCode::unsupported,
                   "rank 0 cannot listen at any address of '{}': {}; expected addresses of rank 0's host, with a port "
                   "that no other program uses: check RUEDA_RENDEZVOUS, or start the job again",
                   rendezvous, refused.message());
}

Result<FrameSocket> connect_to_rendezvous(const SocketControlPlaneOptions& options) {
    const std::vector<std::string> endpoints = endpoints_of_rendezvous(options.rendezvous);
    const Deadline deadline = deadline_in(options.start_timeout);
    milliseconds round = kFirstRound;
    // Rank 0 may start later than this rank, and then its host refuses the connection at once. The first pause is
    // short, because a process takes milliseconds to start.
    milliseconds pause(1);
    std::string description;
    while (!has_passed(deadline)) {
        Result<std::optional<base::ProvenConnection>> connection =
            try_addresses(options, endpoints, round, deadline, description);
        RUEDA_RETURN_IF_FAILED(connection.status());
        if (connection.value()) {
            return FrameSocket(std::move(*connection.value()));
        }
        RUEDA_RETURN_IF_FAILED(ask(options.interruption, options.rank, options.size));
        std::this_thread::sleep_for(pause);
        pause = std::min(pause * 2, milliseconds(50));
        round = std::min(round * 2, kLongestRound);
    }
    return failure(ErrorCode::timeout,
                   "rank 0 was not reached at '{}' within {} s (RUEDA_START_TIMEOUT): {}; check that rank 0 runs, and "
                   "that no firewall between the hosts refuses this port",
                   options.rendezvous, std::chrono::duration<double>(options.start_timeout).count(), description);
}

}  // namespace rueda::collectives
