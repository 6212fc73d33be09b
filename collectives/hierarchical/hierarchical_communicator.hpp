// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The Rueda authors
#pragma once

#include <cstdint>
#include <memory>
#include <span>

#include "collectives/communicator.hpp"
#include "collectives/host/arena/arena.hpp"
#include "collectives/local_group.hpp"
#include "collectives/transport.hpp"

namespace rueda::collectives {

/// How tensors cross between hosts. The options are the same on all ranks.
struct HierarchicalOptions {
    std::uint64_t small_bytes = 64 * 1024;  ///< tensors up to this size are combined by recursive doubling
    bool ring = false;  ///< larger tensors go around a ring instead of by reduce-scatter + allgather
    std::uint64_t network_chunk_bytes = 0;  ///< how much crosses at one time; 0: Rueda chooses
};

/// Collectives over the ranks of several hosts. Within a host they use its arena, between hosts the transport, in lanes
/// (docs/design/0002-several-hosts.md). If the transport fails, a task makes no more progress: failed() gives the
/// reason, and the job has to end.
///
/// Threads: as Communicator says.
class HierarchicalCommunicator final : public Communicator {
public:
    HierarchicalCommunicator(std::shared_ptr<Arena> arena, const LocalGroup& group, Transport& transport,
                             const HierarchicalOptions& options);
    ~HierarchicalCommunicator() override;

    [[nodiscard]] Task& start(const Batch& batch) override;
    /// Runs before an alltoall. It tells every member how many rows it gets (`to`, by member) and learns how many rows
    /// each member has for this rank (`from`). The caller must check `from`, because the numbers come from other ranks.
    /// Both spans stay valid until the task is done.
    [[nodiscard]] Task& start_splits(std::span<const std::int64_t> to, std::span<std::int64_t> from);
    /// The reason why no task can go on any more.
    [[nodiscard]] const Status& failed() const;
    /// Call this after an abort: the memory of unfinished messages is kept until the process ends.
    void abandon();

private:
    class Impl;
    std::unique_ptr<Impl> impl_;
};

}  // namespace rueda::collectives
