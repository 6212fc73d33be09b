// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The Rueda authors
#include "launcher/connection/connect_to_ruedarun.hpp"

#include <fmt/format.h>

#include <chrono>
#include <optional>
#include <utility>

#include "base/network/poll_set.hpp"
#include "launcher/hosts/network.hpp"

namespace rueda::launcher {

Result<base::ProvenConnection> connect_to_ruedarun(const ControlAddress& address, const base::ConnectTimes& times) {
    base::AddressRace race(address.endpoints, address.secret, std::string(kHandshakePurpose), times);
    while (race.is_pending()) {
        base::PollSet set;
        race.add_to(set);
        set.wait_and_dispatch();
        race.check_deadlines(std::chrono::steady_clock::now());
    }
    if (std::optional<base::ProvenConnection> connection = race.take()) {
        return std::move(*connection);
    }
    return failure(ErrorCode::unsupported,
                   "ruedarun could not be reached from {} at any of its addresses, or did not prove the secret of this "
                   "job ({}); check the network between the hosts, or name the right one with --network-interfaces",
                   host_name(), race.description());
}

}  // namespace rueda::launcher
