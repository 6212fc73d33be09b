// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The Rueda authors
#pragma once

#include <chrono>

#include "base/status.hpp"
#include "launcher/connection/control_address.hpp"
#include "launcher/connection/proving_socket.hpp"

namespace rueda::launcher {

/// How long a supervisor (the parent of a rank) waits for an address of ruedarun.
struct ConnectTimes {
    /// The time until the connection exists. The limit allows four retransmissions of TCP's first packet.
    std::chrono::milliseconds connect{20000};
    /// The time from the connection until the other side has proved the secret. ruedarun answers at once, unless its
    /// host is very busy.
    std::chrono::milliseconds proof{10000};
};

/// Connects a supervisor to its ruedarun. The function tries all addresses at the same time, so an address that is
/// silent delays nothing. It returns the first connection on which the other side has proved the secret, and closes the
/// rest. If there is none, the error lists all addresses and says what each of them did.
[[nodiscard]] Result<ProvenConnection> connect_to_ruedarun(const ControlAddress& address,
                                                           const ConnectTimes& times = ConnectTimes());

}  // namespace rueda::launcher
