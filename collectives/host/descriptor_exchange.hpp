// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The Rueda authors
#pragma once

#include <chrono>

#include "base/unique_fd.hpp"
#include "collectives/control_plane.hpp"
#include "collectives/local_group.hpp"

namespace rueda::collectives {

/// Which ways may be taken, in this order. The default is all; tests force one.
struct DescriptorWays {
    bool same_process = true;  ///< ranks that are threads: a duplicate
    bool socket = true;        ///< SCM_RIGHTS over an abstract Unix socket, same user checked on both sides
    bool proc = true;          ///< /proc/<pid>/fd/<n> of the leader
    bool shm = true;           ///< a new object by shm_open, unlinked before anybody uses it
};

/// Gives the leader's shared memory to all ranks of its host. The leader passes the descriptor of a memfd of its final
/// size, not yet written to; the others pass −1. Every rank maps the descriptor that comes back, the leader too: where
/// only shm_open works, it is another object of the same size.
///
/// Collective over the control plane, whatever kind that is. All ranks return the same outcome; a failure says for each
/// way why it did not work. A leader that has no memory to give passes −1, and all ranks fail.
[[nodiscard]] Result<base::UniqueFd> share_descriptor(ControlPlane& control_plane, const LocalGroup& group,
                                                      int fd_or_minus_1, std::chrono::milliseconds timeout,
                                                      const DescriptorWays& ways = {});

}  // namespace rueda::collectives
