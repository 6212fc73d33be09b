// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The Rueda authors
#pragma once

#include <chrono>

#include "base/unique_fd.hpp"
#include "collectives/control_plane.hpp"
#include "collectives/local_group.hpp"

namespace rueda::collectives {

/// The ways that may be tried, in this order. By default all are allowed; tests force a single one.
struct DescriptorWays {
    bool same_process = true;  ///< for ranks that are threads: a duplicate of the descriptor
    bool socket = true;        ///< SCM_RIGHTS over an abstract Unix socket, same user checked on both sides
    bool proc = true;          ///< /proc/<pid>/fd/<n> of the leader
    bool shm = true;           ///< a new object made with shm_open and unlinked before any rank uses it
};

/// Gives the leader's shared memory to all ranks of its host. The leader passes the descriptor of a memfd, which has
/// its final size and was not written to yet; the other ranks pass −1. Every rank, including the leader, maps the
/// descriptor that is returned: if only shm_open works, it refers to a different object of the same size.
///
/// The call is collective over the control plane, of whatever kind that is. All ranks return the same outcome; a
/// failure says for each way why it did not work. If a leader has no memory to give, it passes −1 and all ranks fail.
[[nodiscard]] Result<base::UniqueFd> share_descriptor(ControlPlane& control_plane, const LocalGroup& group,
                                                      int fd_or_minus_1, std::chrono::milliseconds timeout,
                                                      const DescriptorWays& ways = {});

}  // namespace rueda::collectives
