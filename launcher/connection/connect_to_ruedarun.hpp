// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The Rueda authors
#pragma once

#include "base/network/address_race.hpp"
#include "base/status.hpp"
#include "launcher/connection/control_address.hpp"

namespace rueda::launcher {

/// Connects a supervisor to its ruedarun. The function tries all addresses at the same time, so an address that is
/// silent delays nothing. It returns the first connection on which the other side has proved the secret, and closes the
/// rest. If there is none, the error lists all addresses and says what each of them did.
[[nodiscard]] Result<base::ProvenConnection> connect_to_ruedarun(
    const ControlAddress& address, const base::ConnectTimes& times = base::ConnectTimes());

}  // namespace rueda::launcher
