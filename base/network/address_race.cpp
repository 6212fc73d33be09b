// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The Rueda authors
#include "base/network/address_race.hpp"

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/socket.h>

#include <algorithm>
#include <cerrno>
#include <system_error>
#include <utility>

#include "base/network/socket_address.hpp"

namespace rueda::base {

/// The attempt to find the other process at one address. Threads: only one thread may use an object.
class AddressRace::Attempt {
public:
    Attempt(std::string endpoint, const std::string& secret, const std::string& purpose, const ConnectTimes& times)
        : endpoint_(std::move(endpoint)),
          secret_(secret),
          purpose_(purpose),
          times_(times),
          deadline_(std::chrono::steady_clock::now() + times.connect) {}

    void start() {
        const std::optional<SocketAddress> where = parse_endpoint(endpoint_);
        if (!where) {
            return give_up("this is no address");
        }
        // A Unix socket needs a blocking connect(). If the queue of the listening socket is full, a blocking connect()
        // waits, but a non-blocking one fails.
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

    void check_deadline(PollSet::TimePoint now) {
        if (is_pending() && now >= deadline_) {
            give_up(proving_
                        ? fmt::format("it took the connection, but proved nothing within {} s", seconds(times_.proof))
                        : fmt::format("no answer within {} s", seconds(times_.connect)));
        }
    }

    [[nodiscard]] bool is_pending() const { return outcome_.empty() && !is_proven(); }
    [[nodiscard]] bool is_proven() const { return proving_ && proving_->is_proven() && proving_->is_open(); }
    [[nodiscard]] ProvenConnection take() { return proving_->take(); }
    [[nodiscard]] const std::string& endpoint() const { return endpoint_; }
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
        const Result<Nonce> nonce = random_nonce();
        if (!nonce.is_ok()) {
            return give_up(nonce.status().message());
        }
        // a Unix socket is still in blocking mode, because its connect() had to block
        ::fcntl(connecting_.value(), F_SETFL, O_NONBLOCK);
        proving_.emplace(std::move(connecting_), HandshakeSide::connecting, secret_, purpose_, nonce.value());
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
    const std::string purpose_;
    const ConnectTimes times_;
    PollSet::TimePoint deadline_;
    UniqueFd connecting_;                   ///< open until the connection exists
    std::optional<ProvingSocket> proving_;  ///< set when the connection exists
    std::string outcome_;                   ///< how the attempt failed; empty if it has not failed
};

AddressRace::AddressRace(std::span<const std::string> endpoints, const std::string& secret, const std::string& purpose,
                         const ConnectTimes& times) {
    for (const std::string& endpoint : endpoints) {
        attempts_.push_back(std::make_unique<Attempt>(endpoint, secret, purpose, times));
        attempts_.back()->start();
    }
}

AddressRace::~AddressRace() = default;
AddressRace::AddressRace(AddressRace&&) noexcept = default;
AddressRace& AddressRace::operator=(AddressRace&&) noexcept = default;

void AddressRace::add_to(PollSet& set) {
    for (const auto& attempt : attempts_) {
        attempt->add_to(set);
    }
}

void AddressRace::check_deadlines(PollSet::TimePoint now) {
    for (const auto& attempt : attempts_) {
        attempt->check_deadline(now);
    }
}

bool AddressRace::is_pending() const {
    return std::none_of(attempts_.begin(), attempts_.end(), [](const auto& one) { return one->is_proven(); }) &&
           std::any_of(attempts_.begin(), attempts_.end(), [](const auto& one) { return one->is_pending(); });
}

bool AddressRace::has_undecided() const {
    return std::any_of(attempts_.begin(), attempts_.end(), [](const auto& one) { return one->is_pending(); });
}

std::vector<std::string> AddressRace::proven() const {
    std::vector<std::string> endpoints;
    for (const auto& attempt : attempts_) {
        if (attempt->is_proven()) {
            endpoints.push_back(attempt->endpoint());
        }
    }
    return endpoints;
}

std::optional<ProvenConnection> AddressRace::take() {
    const auto proven =
        std::find_if(attempts_.begin(), attempts_.end(), [](const auto& one) { return one->is_proven(); });
    if (proven == attempts_.end()) {
        return std::nullopt;
    }
    std::optional<ProvenConnection> connection = (*proven)->take();
    attempts_.clear();
    return connection;
}

std::string AddressRace::description() const {
    std::string text;
    for (const auto& attempt : attempts_) {
        text += (text.empty() ? "" : "; ") + attempt->description();
    }
    return text;
}

}  // namespace rueda::base
