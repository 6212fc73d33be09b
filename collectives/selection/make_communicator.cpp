// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The Rueda authors
#include "collectives/selection/make_communicator.hpp"

#include <utility>

#include "collectives/hierarchical/hierarchical_communicator.hpp"
#include "collectives/host/host_communicator.hpp"

namespace rueda::collectives {

std::unique_ptr<Communicator> make_communicator(std::shared_ptr<Arena> arena, const std::optional<OtherHosts>& others) {
    if (!others) {
        return std::make_unique<HostCommunicator>(std::move(arena));
    }
    return std::make_unique<HierarchicalCommunicator>(std::move(arena), others->group, others->transport,
                                                      others->options);
}

}  // namespace rueda::collectives
