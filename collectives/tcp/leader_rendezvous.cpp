// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The Rueda authors
#include "collectives/tcp/leader_rendezvous.hpp"

#include <sys/socket.h>

#include <algorithm>
#include <cstring>
#include <deque>
#include <memory>
#include <utility>

#include "base/network/address_race.hpp"
#include "base/network/endpoint_list.hpp"
#include "base/network/network_addresses.hpp"
#include "base/network/poll_set.hpp"
#include "base/network/socket_address.hpp"
#include "base/text.hpp"
#include "collectives/wire.hpp"

namespace rueda::collectives {

namespace {

using Clock = std::chrono::steady_clock;

/// A numeric address has at most 47 characters, and its port with the characters around it at most 8.
constexpr std::size_t kLongestEndpoint = 64;
constexpr std::size_t kLongestRandom = 64;
constexpr std::size_t kLongestOutcome = 2000;
/// The maximum number of connections whose other side has not proved yet that it knows the secret. If another
/// connection arrives, the oldest of these connections is closed.
constexpr std::size_t kMostNewcomers = 64;

/// The purpose of a handshake (base::Handshake). It contains the number of the listening rank, because an address such
/// as 127.0.0.1 may reach another leader of the same job.
std::string purpose_of(int job_rank) { return fmt::format("rueda leader {}", job_rank); }

/// Returns the secret that the leaders use in one call of rendezvous_of_leaders().
std::string secret_of_rendezvous(const std::string& job_secret, const LeaderCard& of_zero) {
    return job_secret.empty() ? of_zero.random : base::derive_secret(job_secret, "rueda leaders", of_zero.random);
}

std::string hexadecimal(const base::Nonce& nonce) {
    std::string text;
    for (const std::uint8_t byte : nonce) {
        text += fmt::format("{:02x}", byte);
    }
    return text;
}

/// Accepts the connections of this leader's children, which are the leaders below it in the tree.
class Reception {
public:
    Reception(std::vector<base::UniqueFd> listeners, std::string secret, int own_job_rank, std::vector<int> children,
              std::size_t most_bytes)
        : listeners_(std::move(listeners)),
          secret_(std::move(secret)),
          purpose_(purpose_of(own_job_rank)),
          missing_(std::move(children)),
          most_bytes_(most_bytes) {}

    [[nodiscard]] bool is_pending() const { return !missing_.empty(); }
    [[nodiscard]] const std::vector<int>& missing() const { return missing_; }
    [[nodiscard]] std::vector<ConnectedLeader> take() { return std::move(connected_); }

    void add_to(base::PollSet& set) {
        for (const base::UniqueFd& listener : listeners_) {
            set.add(listener.value(), POLLIN, [this, fd = listener.value()] { accept_one(fd); });
        }
        for (Newcomer& newcomer : newcomers_) {
            set.add(newcomer.fd(), POLLIN, [this, &newcomer] { advance(newcomer); });
        }
    }
    /// Removes the connections that are closed. Call this after each wait.
    void tidy() {
        std::erase_if(newcomers_, [](const Newcomer& newcomer) { return newcomer.fd() < 0; });
    }

private:
    /// A connection whose other side proves the secret, and then says which rank it is.
    struct Newcomer {
        std::unique_ptr<base::ProvingSocket> proving;
        std::unique_ptr<LeaderLink> link;

        [[nodiscard]] int fd() const { return link ? link->fd() : proving ? proving->fd() : -1; }
        void close() {
            link.reset();
            proving.reset();
        }
    };

    void accept_one(int listener) {
        base::UniqueFd socket(::accept4(listener, nullptr, nullptr, SOCK_CLOEXEC | SOCK_NONBLOCK));
        const Result<base::Nonce> nonce = base::random_nonce();
        if (!socket.is_open() || !nonce.is_ok()) {
            return;
        }
        if (newcomers_.size() >= kMostNewcomers) {
            // The oldest connection without a proof of the secret is closed. A connection with the proof belongs to a
            // leader of this job, so it is kept. The closed element stays in the list until tidy(), because the current
            // wait may still call a callback that refers to it.
            const auto oldest = std::find_if(newcomers_.begin(), newcomers_.end(),
                                             [](const Newcomer& newcomer) { return newcomer.proving != nullptr; });
            if (oldest != newcomers_.end()) {
                oldest->close();
            }
        }
        newcomers_.push_back({std::make_unique<base::ProvingSocket>(std::move(socket), base::HandshakeSide::accepting,
                                                                    secret_, purpose_, nonce.value()),
                              nullptr});
    }

    void advance(Newcomer& newcomer) {
        if (newcomer.proving) {
            if (!newcomer.proving->advance().is_ok()) {
                return newcomer.close();
            }
            if (!newcomer.proving->is_proven()) {
                return;
            }
            newcomer.link = std::make_unique<LeaderLink>(newcomer.proving->take(), most_bytes_);
            newcomer.proving.reset();
        }
        if (newcomer.link) {
            greet(newcomer);
        }
    }

    void greet(Newcomer& newcomer) {
        const std::vector<LeaderLink::Message> messages = newcomer.link->receive();
        if (messages.empty() && newcomer.link->ended().is_ok()) {
            return;  // the greeting has not arrived yet
        }
        std::int32_t rank = -1;
        const bool is_greeting = messages.size() == 1 && messages[0].header.kind == LinkHeader::Kind::greeting &&
                                 messages[0].content.size() == sizeof rank && newcomer.link->ended().is_ok();
        if (is_greeting) {
            std::memcpy(&rank, messages[0].content.data(), sizeof rank);
        }
        const auto child = std::find(missing_.begin(), missing_.end(), rank);
        if (child != missing_.end()) {
            missing_.erase(child);
            connected_.push_back({rank, std::move(newcomer.link)});
        }
        newcomer.close();
    }

    const std::vector<base::UniqueFd> listeners_;
    const std::string secret_;
    const std::string purpose_;
    std::vector<int> missing_;  ///< ranks of the job
    const std::size_t most_bytes_;
    std::deque<Newcomer> newcomers_;  // a deque, so that accept_one() moves no element that a callback refers to
    std::vector<ConnectedLeader> connected_;
};

/// The result of a rank's attempt to connect. The rank sends it to all other ranks.
struct LeaderRendezvousOutcome {
    std::string could_not_connect;  ///< Why this rank has no connection to its parent. Empty if it has one.
    std::string not_reached;        ///< Says which children did not connect. Empty if all did.
};

Bytes encode(const LeaderRendezvousOutcome& outcome) {
    WireWriter writer;
    writer.text(base::shortened(outcome.could_not_connect, kLongestOutcome));
    writer.text(base::shortened(outcome.not_reached, kLongestOutcome));
    return std::move(writer).take();
}

/// Returns the reason why the leaders could not connect to each other, or "". If a connection failed, the rank that
/// tried to connect knows more than the rank that waited for it. The reason of the rank that tried is therefore
/// preferred.
std::string reason_among(const std::vector<Bytes>& outcomes) {
    std::string could_not_connect;
    std::string not_reached;
    for (const Bytes& bytes : outcomes) {
        WireReader reader(bytes);
        const std::string first = base::printable(reader.text(kLongestOutcome), kLongestOutcome);
        const std::string second = base::printable(reader.text(kLongestOutcome), kLongestOutcome);
        if (!reader.complete()) {
            return "a rank sent an outcome that cannot be read: do all ranks run the same build of Rueda?";
        }
        could_not_connect = could_not_connect.empty() ? first : could_not_connect;
        not_reached = not_reached.empty() ? second : not_reached;
    }
    return could_not_connect.empty() ? not_reached : could_not_connect;
}

/// One rank's part in connecting the leaders. At this time, the ranks have exchanged the addresses. Afterwards they
/// exchange the results.
class Attempt {
public:
    Attempt(const ControlPlane& plane, const WantedLeaders& wanted, const LeaderRendezvousOptions& options,
            const std::vector<LeaderCard>& cards, const std::string& secret, std::vector<base::UniqueFd> listeners)
        : plane_(plane),
          wanted_(wanted),
          options_(options),
          reception_(std::move(listeners), secret, own_job_rank(), children(), options.most_bytes) {
        if (wanted.parent) {
            race_.emplace(cards[static_cast<std::size_t>(*wanted.parent)].endpoints, secret,
                          purpose_of(plane.job_rank(*wanted.parent)), base::ConnectTimes{options.time, options.time});
        }
    }

    /// Waits until this rank has its connections, or the time is over. The loop wakes up when a connection or bytes of
    /// a handshake arrive.
    [[nodiscard]] LeaderRendezvousOutcome run() {
        if (!options_.cannot.empty()) {
            return {fmt::format("rank {}: {}", own_job_rank(), options_.cannot), ""};
        }
        const Clock::time_point deadline = Clock::now() + options_.time;
        while ((reception_.is_pending() || is_racing()) && Clock::now() < deadline) {
            base::PollSet set;
            set.wake_at(deadline);
            reception_.add_to(set);
            if (is_racing()) {
                race_->add_to(set);
            }
            set.wait_and_dispatch();
            reception_.tidy();
            if (race_) {
                race_->check_deadlines(Clock::now());
                take_parent();
            }
        }
        return outcome();
    }
    [[nodiscard]] std::vector<ConnectedLeader> take() {
        std::vector<ConnectedLeader> all = reception_.take();
        if (parent_) {
            all.push_back(std::move(*parent_));
        }
        return all;
    }

private:
    [[nodiscard]] int own_job_rank() const { return plane_.job_rank(plane_.rank()); }
    [[nodiscard]] std::vector<int> children() const {
        std::vector<int> ranks;
        for (const int child : wanted_.children) {
            ranks.push_back(plane_.job_rank(child));
        }
        return ranks;
    }
    [[nodiscard]] bool is_racing() const { return race_ && !parent_ && race_->is_pending(); }

    void take_parent() {
        if (parent_) {
            return;
        }
        if (std::optional<base::ProvenConnection> connection = race_->take()) {
            parent_ = ConnectedLeader{plane_.job_rank(*wanted_.parent),
                                      std::make_unique<LeaderLink>(std::move(*connection), options_.most_bytes)};
            const auto rank = static_cast<std::int32_t>(own_job_rank());
            static_cast<void>(parent_->link->send({LinkHeader::Kind::greeting, Transport::Channel::control},
                                                  {reinterpret_cast<const char*>(&rank), sizeof rank}));
        }
    }

    [[nodiscard]] LeaderRendezvousOutcome outcome() const {
        LeaderRendezvousOutcome outcome;
        if (wanted_.parent && !parent_) {
            const std::string tried = race_->description();
            outcome.could_not_connect =
                fmt::format("rank {} could not connect to rank {} ({})", own_job_rank(),
                            plane_.job_rank(*wanted_.parent), tried.empty() ? "it listens at no address" : tried);
        }
        if (reception_.is_pending()) {
            outcome.not_reached =
                fmt::format("{} did not connect to rank {} within {:.0f} s",
                            base::format_ranks({reception_.missing().begin(), reception_.missing().end()}),
                            own_job_rank(), std::chrono::duration<double>(options_.time).count());
        }
        return outcome;
    }

    const ControlPlane& plane_;
    const WantedLeaders& wanted_;
    const LeaderRendezvousOptions& options_;
    Reception reception_;
    std::optional<base::AddressRace> race_;
    std::optional<ConnectedLeader> parent_;
};

/// Makes this rank's card, which tells the other ranks where this rank listens. A rank that has no children does not
/// listen.
LeaderCard card_of(const ControlPlane& plane, const LeaderListener& listener) {
    LeaderCard card;
    card.endpoints = listener.endpoints;
    if (plane.rank() == 0) {
        const Result<base::Nonce> nonce = base::random_nonce();
        card.random = nonce.is_ok() ? hexadecimal(nonce.value()) : "";
    }
    return card;
}

}  // namespace

LeaderListener listen_at_all_addresses() {
    LeaderListener listener;
    std::vector<base::NetworkAddress> addresses = base::network_addresses();
    std::stable_partition(addresses.begin(), addresses.end(),
                          [](const base::NetworkAddress& address) { return !address.is_loopback; });
    for (const base::NetworkAddress& address : addresses) {
        const auto where = base::network_address(address.address, 0);
        base::UniqueFd socket = where && !address.is_link_local && listener.sockets.size() < base::kMostEndpoints
                                    ? base::listen_at(*where)
                                    : base::UniqueFd();
        if (socket.is_open()) {
            const std::uint16_t port = base::port_of(socket.value());
            listener.endpoints.push_back(base::endpoint_text(address.address, address.is_ipv6, port));
            listener.sockets.push_back(std::move(socket));
        }
    }
    return listener;
}

Bytes encode(const LeaderCard& card) {
    WireWriter writer;
    writer.text(card.random);
    writer.number(static_cast<std::uint32_t>(card.endpoints.size()));
    for (const std::string& endpoint : card.endpoints) {
        writer.text(endpoint);
    }
    return std::move(writer).take();
}

Result<LeaderCard> parse_leader_card(std::span<const std::byte> bytes) {
    WireReader reader(bytes);
    LeaderCard card;
    card.random = reader.text(kLongestRandom);
    const auto count = reader.number<std::uint32_t>();
    for (std::uint32_t i = 0; i < std::min<std::uint32_t>(count, base::kMostEndpoints) && reader.intact(); ++i) {
        card.endpoints.push_back(base::printable(reader.text(kLongestEndpoint)));
    }
    return reader.complete() && count <= base::kMostEndpoints
               ? Result<LeaderCard>(std::move(card))
               : failure(ErrorCode::internal,
                         "a rank sent {} bytes that are no addresses: do all ranks run the same build of Rueda?",
                         bytes.size());
}

Result<LeaderRendezvous> rendezvous_of_leaders(ControlPlane& plane, const WantedLeaders& wanted,
                                               const LeaderRendezvousOptions& options) {
    LeaderListener listener = wanted.children.empty() ? LeaderListener() : options.listen();
    const Result<std::vector<Bytes>> all = plane.allgather(encode(card_of(plane, listener)));
    RUEDA_RETURN_IF_FAILED(all.status());
    std::vector<LeaderCard> cards;
    for (const Bytes& bytes : all.value()) {
        Result<LeaderCard> card = parse_leader_card(bytes);
        RUEDA_RETURN_IF_FAILED(card.status());
        cards.push_back(std::move(card).value());
    }
    if (cards.front().random.empty()) {
        return LeaderRendezvous{{}, "rank 0 has no random numbers for a secret"};
    }
    Attempt attempt(plane, wanted, options, cards, secret_of_rendezvous(options.job_secret, cards.front()),
                    std::move(listener.sockets));
    const Result<std::vector<Bytes>> outcomes = plane.allgather(encode(attempt.run()));
    RUEDA_RETURN_IF_FAILED(outcomes.status());
    LeaderRendezvous rendezvous;
    rendezvous.why_not = reason_among(outcomes.value());
    if (rendezvous.why_not.empty()) {
        rendezvous.leaders = attempt.take();
    }
    return rendezvous;
}

}  // namespace rueda::collectives
