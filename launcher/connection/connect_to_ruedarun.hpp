// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The Rueda authors
#pragma once

#include "base/network/address_race.hpp"
#include "base/status.hpp"
#include "launcher/connection/control_address.hpp"

namespace rueda::launcher {

/// Connects a supervisor to its ruedarun. The function tries all addresses at the same time, so it loses no time if an
/// address does not answer. It returns the first connection on which the other side has proved that it knows the
/// secret, and closes the other connections. If there is no such connection, the error lists all addresses, and says
/// for each address what happened.
[[nodiscard]] Result<base::ProvenConnection> connect_to_ruedarun(
    const ControlAddress& address, const base::ConnectTimes& times = base::ConnectTimes());

}  // namespace rueda::launcher
