// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The Rueda authors
#pragma once

#include <chrono>

#include "base/unique_fd.hpp"
#include "collectives/control_plane.hpp"
#include "collectives/local_group.hpp"

namespace rueda::collectives {

/// Says which ways may be tried. The order of the members is the order of the attempts. By default all ways are
/// allowed; tests allow a single way.
struct DescriptorWays {
    bool same_process = true;  ///< for ranks that are threads: a duplicate of the descriptor
    bool socket = true;        ///< SCM_RIGHTS over an abstract Unix socket; both sides check that the other belongs to
                               ///< the same user
    bool proc = true;          ///< /proc/<pid>/fd/<n> of the leader
    bool shm = true;           ///< a new object made with shm_open and unlinked before any rank uses it
};

/// Gives the leader's shared memory to all ranks of its host. The leader calls it with the descriptor of a memfd, which
/// has its final size and was not written to yet; the other ranks call it with −1. Every rank, including the leader,
/// must map the returned descriptor, because it refers to a different object of the same size if only shm_open works.
///
/// The call is collective over the control plane, which may be of any kind. All ranks return the same outcome. A
/// failure says for each way why it did not work. If a leader has no memory to give, it passes −1 and all ranks fail.
[[nodiscard]] Result<base::UniqueFd> share_descriptor(ControlPlane& control_plane, const LocalGroup& group,
                                                      int fd_or_minus_1, std::chrono::milliseconds timeout,
                                                      const DescriptorWays& ways = {});

}  // namespace rueda::collectives
