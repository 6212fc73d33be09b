// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The Rueda authors
#pragma once

#include <chrono>
#include <functional>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "base/status.hpp"
#include "collectives/bulk_transport.hpp"

namespace rueda::collectives {

/// Exchanges bytes between all ranks, as ControlPlane::allgather() does. Element r of the result comes from rank r.
using Allgather = std::function<Result<std::vector<Bytes>>(std::span<const std::byte> mine)>;

struct UcxRendezvousOptions {
    int rank = 0;
    int size = 1;
    /// How long a rank tries to exchange messages with other ranks. If the network drops all packets of UCX, init takes
    /// longer by this time.
    std::chrono::milliseconds time{10'000};
    /// A function that is called repeatedly during the attempt. If it returns a failure, the attempt ends. May be
    /// empty.
    std::function<Status()> meanwhile = {};
    /// Makes the transport of this rank.
    std::function<Result<std::unique_ptr<BulkTransport>>(int rank, int size)> create;
};

/// The result of the attempt to connect all ranks over UCX.
struct UcxRendezvous {
    std::unique_ptr<BulkTransport> transport;
    /// The reason why no rank has a transport; "" if every rank has one. The text is the same on all ranks.
    std::string why_not;
};

/// Connects all ranks over UCX, and lets them exchange messages once. Collective. Fails only if `allgather` fails. If
/// the ranks cannot use UCX, the function succeeds, and `why_not` in the result has the reason.
[[nodiscard]] Result<UcxRendezvous> rendezvous_over_ucx(const Allgather& allgather,
                                                        const UcxRendezvousOptions& options);

}  // namespace rueda::collectives
