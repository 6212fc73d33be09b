// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The Rueda authors
#pragma once

#include <cstdint>
#include <memory>
#include <span>

#include "collectives/communicator.hpp"
#include "collectives/hierarchical/hierarchical_options.hpp"
#include "collectives/host/arena/arena.hpp"
#include "collectives/local_group.hpp"
#include "collectives/transport.hpp"

namespace rueda::collectives {

/// Collectives over the ranks of several hosts. Ranks of one host exchange data through the arena, the host's shared
/// memory. A *lane* is a rank that also sends and receives for its host, over the transport
/// (docs/design/0002-several-hosts.md). If the transport fails, tasks make no more progress. failed() returns the
/// reason, and the job has to end.
///
/// Threads: one at a time, namely the thread that drives progress (see Communicator).
class HierarchicalCommunicator final : public Communicator {
public:
    HierarchicalCommunicator(std::shared_ptr<Arena> arena, const LocalGroup& group, Transport& transport,
                             const HierarchicalOptions& options);
    ~HierarchicalCommunicator() override;

    [[nodiscard]] Task& start(const Batch& batch) override;
    [[nodiscard]] bool exchanges_splits() const override { return true; }
    [[nodiscard]] Task& start_splits(std::span<const std::int64_t> to, std::span<std::int64_t> from) override;
    [[nodiscard]] const Status& failed() const override;
    void abandon() override;

private:
    class Impl;
    std::unique_ptr<Impl> impl_;
};

}  // namespace rueda::collectives
