// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The Rueda authors
#pragma once

#include <vector>

#include "base/unique_fd.hpp"
#include "collectives/host/socket_control_plane.hpp"

namespace rueda::collectives {

/// Past its own deadline, a rank gives rank 0 this long to say what it knows: rank 0 names the missing ranks, the
/// others could only say that no answer came.
inline constexpr std::chrono::milliseconds kAnswerGrace{2000};

/// Rank 0 opens the meeting point and waits for the others: element r is the connection to rank r (element 0 is none).
/// When it returns, well or not, the name is free again.
[[nodiscard]] Result<std::vector<base::UniqueFd>> receive_ranks(const SocketControlPlaneOptions& options);

/// The others come to it: the connection to rank 0, which has said that all have come.
[[nodiscard]] Result<base::UniqueFd> come_to_rank_0(const SocketControlPlaneOptions& options);

/// " 2", " 2, 3": the ranks for which `is_missing` is true.
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
