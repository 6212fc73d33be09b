// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The Rueda authors
#include "launcher/connection/connect_to_ruedarun.hpp"

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/socket.h>

#include <algorithm>
#include <cerrno>
#include <memory>
#include <optional>
#include <string>
#include <system_error>
#include <utility>
#include <vector>

#include "launcher/connection/socket_address.hpp"
#include "launcher/hosts/network.hpp"
#include "launcher/processes/poll_set.hpp"

namespace rueda::launcher {

namespace {

using AttemptTime = PollSet::TimePoint;

/// The attempt to find ruedarun at one address. Threads: only one thread may use an object.
class AddressAttempt {
public:
    AddressAttempt(std::string endpoint, const std::string& secret, const ConnectTimes& times)
        : endpoint_(std::move(endpoint)),
          secret_(secret),
          times_(times),
          deadline_(std::chrono::steady_clock::now() + times.connect) {}

    void start() {
        const std::optional<SocketAddress> where = parse_endpoint(endpoint_);
        if (!where) {
            return give_up("this is no address");
        }
        // A Unix socket needs a blocking call. If the queue of the listening socket is full, such a call waits, but a
        // non-blocking one fails.
        const bool is_network = where->storage.ss_family != AF_UNIX;
        connecting_ = open_socket(*where, is_network ? SOCK_NONBLOCK : 0);
        const int result = connecting_.is_open() ? ::connect(connecting_.value(), where->raw(), where->size) : -1;
        if (result != 0 && !(is_network && errno == EINPROGRESS)) {
            return give_up(std::generic_category().message(errno));
        }
        if (!is_network) {
            begin_proof();
        }
    }

    void add_to(PollSet& set) {
        if (proving_ && proving_->is_open() && !is_proven()) {
            set.add(proving_->fd(), POLLIN, [this] { advance(); });
        } else if (connecting_.is_open()) {
            set.add(connecting_.value(), POLLOUT, [this] { take_connection(); });
        }
        if (is_pending()) {
            set.wake_at(deadline_);
        }
    }

    void check_deadline(AttemptTime now) {
        if (is_pending() && now >= deadline_) {
            give_up(proving_
                        ? fmt::format("it took the connection, but proved nothing within {} s", seconds(times_.proof))
                        : fmt::format("no answer within {} s", seconds(times_.connect)));
        }
    }

    [[nodiscard]] bool is_pending() const { return outcome_.empty() && !is_proven(); }
    [[nodiscard]] bool is_proven() const { return proving_ && proving_->is_proven() && proving_->is_open(); }
    [[nodiscard]] ProvenConnection take() { return proving_->take(); }
    [[nodiscard]] std::string description() const { return fmt::format("{}: {}", endpoint_, outcome_); }

private:
    [[nodiscard]] static double seconds(std::chrono::milliseconds time) {
        return std::chrono::duration<double>(time).count();
    }

    void take_connection() {
        int error = 0;
        socklen_t size = sizeof error;
        ::getsockopt(connecting_.value(), SOL_SOCKET, SO_ERROR, &error, &size);
        if (error != 0) {
            return give_up(std::generic_category().message(error));
        }
        begin_proof();
    }

    void begin_proof() {
        if (!may_be_of_this_job(connecting_.value())) {
            return give_up("another user listens there");
        }
        const Result<base::Nonce> nonce = base::random_nonce();
        if (!nonce.is_ok()) {
            return give_up(nonce.status().message());
        }
        ::fcntl(connecting_.value(), F_SETFL, O_NONBLOCK);  // a Unix socket was blocking until now
        proving_.emplace(std::move(connecting_), base::HandshakeSide::connecting, secret_, nonce.value());
        deadline_ = std::chrono::steady_clock::now() + times_.proof;
        advance();
    }

    void advance() {
        if (const Status status = proving_->advance(); !status.is_ok()) {
            give_up(status.message());
        }
    }

    void give_up(const std::string& outcome) {
        outcome_ = outcome;
        connecting_.reset();
        if (proving_) {
            proving_->close();
        }
    }

    const std::string endpoint_;
    const std::string secret_;
    const ConnectTimes times_;
    AttemptTime deadline_;
    base::UniqueFd connecting_;             ///< open until the connection exists
    std::optional<ProvingSocket> proving_;  ///< set from then on
    std::string outcome_;                   ///< how the attempt failed; empty if it has not failed
};

/// Waits until one address has proved the secret, or all have failed. Returns the address that did; nullptr if there is
/// none.
AddressAttempt* await_proof(std::vector<std::unique_ptr<AddressAttempt>>& attempts) {
    for (;;) {
        const auto proven =
            std::find_if(attempts.begin(), attempts.end(), [](const auto& one) { return one->is_proven(); });
        if (proven != attempts.end()) {
            return proven->get();
        }
        if (std::none_of(attempts.begin(), attempts.end(), [](const auto& one) { return one->is_pending(); })) {
            return nullptr;
        }
        PollSet set;
        for (const auto& attempt : attempts) {
            attempt->add_to(set);
        }
        set.wait_and_dispatch();
        for (const auto& attempt : attempts) {
            attempt->check_deadline(std::chrono::steady_clock::now());
        }
    }
}

}  // namespace

Result<ProvenConnection> connect_to_ruedarun(const ControlAddress& address, const ConnectTimes& times) {
    std::vector<std::unique_ptr<AddressAttempt>> attempts;
    for (const std::string& endpoint : address.endpoints) {
        attempts.push_back(std::make_unique<AddressAttempt>(endpoint, address.secret, times));
        attempts.back()->start();
    }
    if (AddressAttempt* const proven = await_proof(attempts); proven != nullptr) {
        return proven->take();
    }
    std::vector<std::string> descriptions;
    for (const auto& attempt : attempts) {
        descriptions.push_back(attempt->description());
    }
    return failure(ErrorCode::unsupported,
                   "ruedarun could not be reached from {} at any of its addresses, or did not prove the secret of this "
                   "job ({}); check the network between the hosts, or name the right one with --network-interfaces",
                   host_name(), fmt::join(descriptions, "; "));
}

}  // namespace rueda::launcher
