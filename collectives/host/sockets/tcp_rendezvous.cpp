// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The Rueda authors
#include "collectives/host/sockets/tcp_rendezvous.hpp"

#include <netinet/in.h>
#include <sys/socket.h>

#include <algorithm>
#include <cerrno>
#include <chrono>
#include <optional>
#include <span>
#include <utility>

#include "base/network/address_race.hpp"
#include "base/network/endpoint_list.hpp"
#include "base/network/poll_set.hpp"
#include "base/network/socket_address.hpp"

namespace rueda::collectives {
namespace {

using std::chrono::milliseconds;

/// The limits for one attempt at one address. Normally rank 0 proves the secret at once; the limits leave time for a
/// very busy host.
constexpr base::ConnectTimes kAttemptTimes{milliseconds(20'000), milliseconds(10'000)};
/// The longest pause between two attempts at an address. The first pause is shorter, because a process takes
/// milliseconds to start.
constexpr milliseconds kLongestPause{50};

/// Listens at one address. SO_REUSEADDR is needed because other sockets may still use the port: the socket of the
/// process that reserved the port (held_port), and connections of an earlier job. If the function fails, errno has the
/// reason.
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

/// The attempts to reach rank 0 at one address. An attempt fails at once if rank 0 does not listen yet, and is then
/// repeated. An address that does not answer delays no other address. Threads: only one thread may use an object.
class AddressAttempts {
public:
    AddressAttempts(std::string endpoint, std::string secret)
        : endpoint_(std::move(endpoint)), secret_(std::move(secret)) {}

    /// Begins the next attempt if it is time for it.
    void begin(Deadline now) {
        if (!race_ && now >= next_) {
            race_.emplace(std::span(&endpoint_, 1), secret_, std::string(kRendezvousPurpose), kAttemptTimes);
        }
    }
    void add_to(base::PollSet& set, Deadline now) {
        if (race_ && race_->is_pending()) {
            race_->add_to(set);
        } else {
            // An attempt can fail at once, before the wait begins. No event would then end the wait, so the time limit
            // of the wait is set to 0. After the wait, take() notices that the attempt has failed.
            set.wake_at(race_ ? now : next_);
        }
    }
    /// Returns the connection if the attempt has succeeded. Call this after each wait.
    [[nodiscard]] std::optional<base::ProvenConnection> take(Deadline now) {
        if (!race_) {
            return std::nullopt;
        }
        race_->check_deadlines(now);
        std::optional<base::ProvenConnection> connection = race_->take();
        if (!connection && !race_->is_pending()) {
            outcome_ = race_->description();
            race_.reset();
            next_ = now + pause_;
            pause_ = std::min(pause_ * 2, kLongestPause);
        }
        return connection;
    }
    /// How the last attempt failed.
    [[nodiscard]] std::string description() const { return outcome_.empty() ? endpoint_ + ": no answer" : outcome_; }

private:
    std::string endpoint_;
    std::string secret_;
    std::optional<base::AddressRace> race_;
    Deadline next_{};
    milliseconds pause_{1};
    std::string outcome_;
};

}  // namespace

Result<std::vector<base::UniqueFd>> listen_at_rendezvous(const std::string& rendezvous) {
    std::vector<base::UniqueFd> listeners;
    Status refused;
    std::vector<std::string> endpoints = endpoints_of_rendezvous(rendezvous);
    std::sort(endpoints.begin(), endpoints.end());
    endpoints.erase(std::unique(endpoints.begin(), endpoints.end()), endpoints.end());  // two interfaces may share one
    for (const std::string& endpoint : endpoints) {
        const std::optional<base::SocketAddress> address = base::parse_endpoint(endpoint);
        base::UniqueFd listener = address ? listen_at_reserved(*address) : base::UniqueFd();
        if (listener.is_open()) {
            listeners.push_back(std::move(listener));
        } else if (address && errno == EADDRINUSE) {
            // Another program uses the port. The other ranks would connect to that program, and would never reach rank
            // 0.
            return failure(ErrorCode::unsupported,
                           "rank 0 cannot listen at {}, because another program uses this port: check "
                           "RUEDA_RENDEZVOUS, or start the job again",
                           endpoint);
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
    std::vector<AddressAttempts> addresses;
    for (const std::string& endpoint : endpoints_of_rendezvous(options.rendezvous)) {
        addresses.emplace_back(endpoint, options.secret);
    }
    const Deadline deadline = deadline_in(options.start_timeout);
    while (!has_passed(deadline)) {
        base::PollSet set;
        set.wake_at(options.interruption ? std::min(deadline, deadline_in(kInterruptionInterval)) : deadline);
        for (AddressAttempts& address : addresses) {
            const Deadline now = std::chrono::steady_clock::now();
            address.begin(now);
            address.add_to(set, now);
        }
        // The wait ends when a connection or a proof arrives, or when it is time for the next attempt.
        set.wait_and_dispatch();
        for (AddressAttempts& address : addresses) {
            if (auto connection = address.take(std::chrono::steady_clock::now())) {
                return FrameSocket(std::move(*connection));
            }
        }
        RUEDA_RETURN_IF_FAILED(ask(options.interruption, options.rank, options.size));
    }
    std::string description;
    for (const AddressAttempts& address : addresses) {
        description += (description.empty() ? "" : "; ") + address.description();
    }
    return failure(ErrorCode::timeout,
                   "rank 0 was not reached at '{}' within {} s (RUEDA_START_TIMEOUT): {}; check that rank 0 runs, and "
                   "that no firewall between the hosts refuses this port",
                   options.rendezvous, std::chrono::duration<double>(options.start_timeout).count(), description);
}

}  // namespace rueda::collectives
