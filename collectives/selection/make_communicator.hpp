// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The Rueda authors
#pragma once

#include <memory>
#include <optional>

#include "collectives/communicator.hpp"
#include "collectives/hierarchical/hierarchical_options.hpp"
#include "collectives/host/arena/arena.hpp"
#include "collectives/local_group.hpp"
#include "collectives/transport.hpp"

namespace rueda::collectives {

/// The parts by which a process set on several hosts communicates with the other hosts.
struct OtherHosts {
    const LocalGroup& group;
    Transport& transport;
    HierarchicalOptions options;
};

/// Makes the communicator of a process set. If `others` is empty, all members of the set are on one host.
[[nodiscard]] std::unique_ptr<Communicator> make_communicator(std::shared_ptr<Arena> arena,
                                                              const std::optional<OtherHosts>& others);

}  // namespace rueda::collectives
