// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The Rueda authors
#pragma once

#include <vector>

#include "collectives/host/sockets/frame_stream.hpp"
#include "collectives/host/sockets/socket_control_plane.hpp"

namespace rueda::collectives {

/// After its own deadline, a rank waits this much longer for rank 0's answer, because the answer names the missing
/// ranks. Without the additional time, the rank could report only that rank 0 did not answer.
inline constexpr std::chrono::milliseconds kAnswerGrace{2000};

/// Runs on rank 0: opens the rendezvous and waits for all other ranks. Element r of the result is the connection to
/// rank r; element 0 is empty. When the function returns, the name is free again, even after a failure.
[[nodiscard]] Result<std::vector<FrameSocket>> receive_ranks(const SocketControlPlaneOptions& options);

/// Runs on every other rank: connects to rank 0. Returns the connection after rank 0 has reported that all ranks have
/// connected.
[[nodiscard]] Result<FrameSocket> come_to_rank_0(const SocketControlPlaneOptions& options);

/// Lists the ranks for which `is_missing` is true, for example " 2" or " 2, 3".
template <class IsMissing>
[[nodiscard]] std::string rank_list(int size, IsMissing is_missing) {
    std::string ranks;
    for (int r = 0; r < size; ++r) {
        if (is_missing(r)) {
            ranks += fmt::format("{}{}", ranks.empty() ? " " : ", ", r);
        }
    }
    return ranks;
}

}  // namespace rueda::collectives
