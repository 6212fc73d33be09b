// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The Rueda authors
#include "collectives/single_control_plane.hpp"

namespace rueda::collectives {

Result<std::vector<Bytes>> SingleControlPlane::allgather(std::span<const std::byte> mine) {
    std::vector<Bytes> all;
    all.emplace_back(mine.begin(), mine.end());
    return all;
}

Result<Bytes> SingleControlPlane::broadcast(std::span<const std::byte> mine, int root) {
    if (root != 0) {
        return failure(ErrorCode::invalid_argument, "broadcast: root {} does not exist, expected 0: the size is 1",
                       root);
    }
    return Bytes(mine.begin(), mine.end());
}

}  // namespace rueda::collectives
