// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The Rueda authors
#pragma once

#include <chrono>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "base/network/poll_set.hpp"
#include "base/network/proving_socket.hpp"

namespace rueda::base {

/// How long a process waits for the other process at one address. The wait has two parts.
struct ConnectTimes {
    /// The limit for the first part, which ends when the connection exists. It allows four retransmissions of TCP's
    /// first packet.
    std::chrono::milliseconds connect{20000};
    /// The limit for the second part, which ends when the other side has proved the secret. The other side answers at
    /// once, unless its host is very busy.
    std::chrono::milliseconds proof{10000};
};

/// Finds a process that listens at several addresses. The object tries all addresses at the same time, so an address
/// that does not answer delays nothing. The first address at which a process proves that it knows the secret is used.
/// No function blocks: the caller waits in a PollSet. Threads: only one thread may use an object.
class AddressRace {
public:
    /// `secret` and `purpose`: see Handshake. `endpoints`: see parse_endpoint().
    AddressRace(std::span<const std::string> endpoints, const std::string& secret, const std::string& purpose,
                const ConnectTimes& times);
    ~AddressRace();
    AddressRace(AddressRace&&) noexcept;
    AddressRace& operator=(AddressRace&&) noexcept;

    void add_to(PollSet& set);
    /// Gives up the addresses whose time limit has passed. Call this after each wait.
    void check_deadlines(PollSet::TimePoint now);
    /// Whether the search is still going on: no process has proved that it knows the secret, but at least one address
    /// may still succeed.
    [[nodiscard]] bool is_pending() const;
    /// Whether an address may still succeed, even if another address has succeeded already. This is for callers that
    /// want to find all addresses that succeed.
    [[nodiscard]] bool has_undecided() const;
    /// Returns the addresses at which a process has proved that it knows the secret.
    [[nodiscard]] std::vector<std::string> proven() const;
    /// Returns the connection to the first address at which a process has proved that it knows the secret, and closes
    /// the other connections. Returns nothing if there is no such address.
    [[nodiscard]] std::optional<ProvenConnection> take();
    /// Lists the addresses, and says for each address how far the attempt came.
    [[nodiscard]] std::string description() const;

private:
    class Attempt;

    std::vector<std::unique_ptr<Attempt>> attempts_;
};

}  // namespace rueda::base
