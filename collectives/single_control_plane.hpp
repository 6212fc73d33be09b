// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The Rueda authors
#pragma once

#include "collectives/control_plane.hpp"

namespace rueda::collectives {

/// The control plane of a job with one process. Threads: any thread, because there is no state.
class SingleControlPlane final : public ControlPlane {
public:
    [[nodiscard]] int rank() const override { return 0; }
    [[nodiscard]] int size() const override { return 1; }
    [[nodiscard]] std::string description() const override { return "single process"; }
    Result<std::vector<Bytes>> allgather(std::span<const std::byte> mine) override;
    Result<Bytes> broadcast(std::span<const std::byte> mine, int root) override;
    Status barrier() override { return {}; }
    void close(bool /*after_failure*/) override {}
};

}  // namespace rueda::collectives
