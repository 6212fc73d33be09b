// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The Rueda authors
#pragma once

#include <chrono>

#include "base/unique_fd.hpp"
#include "collectives/control_plane.hpp"
#include "collectives/local_group.hpp"

namespace rueda::collectives {

/// The ways in which a descriptor may be passed. They are tried in the order of the fields below. By default all ways
/// are allowed. Tests allow a single way.
struct DescriptorWays {
    /// Whether the ranks may get duplicates of the descriptor. This works only if the ranks are threads of one process.
    bool same_process = true;
    /// Whether the leader may send the descriptor with SCM_RIGHTS over an abstract Unix socket. Each side checks that
    /// the other side belongs to the same user.
    bool socket = true;
    bool proc = true;  ///< Whether the other ranks may open /proc/<pid>/fd/<n> of the leader.
    bool shm = true;   ///< Whether the leader may make a new shared-memory object with shm_open. Its name is removed
                       ///< before any rank uses the memory.
};

/// Gives the leader's shared memory to all ranks of its host. The leader passes the descriptor of a memfd that has its
/// final size and was not written to. The other ranks pass −1. Every rank, including the leader, must map the returned
/// descriptor. If only shm_open works, the returned descriptor refers to a new object of the same size.
///
/// All ranks of the control plane must call this function. All ranks get the same outcome. The text of a failure lists
/// the ways that were tried, and says why each of them did not work. If a leader passes −1 because it has no memory to
/// give, all ranks fail.
[[nodiscard]] Result<base::UniqueFd> share_descriptor(ControlPlane& control_plane, const LocalGroup& group,
                                                      int fd_or_minus_1, std::chrono::milliseconds timeout,
                                                      const DescriptorWays& ways = {});

}  // namespace rueda::collectives
