// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The Rueda authors
#pragma once

#include <cstdint>
#include <memory>
#include <span>

#include "collectives/communicator.hpp"
#include "collectives/host/arena.hpp"
#include "collectives/host/numa_nodes.hpp"
#include "collectives/local_group.hpp"
#include "collectives/transport.hpp"

namespace rueda::collectives {

/// How tensors cross between hosts; the same on all ranks.
struct HierarchicalOptions {
    std::uint64_t small_bytes = 64 * 1024;  ///< tensors up to this size are combined by recursive doubling
    bool ring = false;                      ///< larger ones around a ring instead of in host order
    std::uint64_t network_chunk_bytes = 0;  ///< what crosses at one time; 0: chosen
};

/// Collectives of the ranks of several hosts: within a host through its arena, between hosts over the transport, in
/// lanes (docs/design/0002-several-hosts.md). A failure of the transport ends a task's steps: failed() says why, and
/// the job has to end.
///
/// Threads: as Communicator says.
class HierarchicalCommunicator final : public Communicator {
public:
    HierarchicalCommunicator(std::shared_ptr<Arena> arena, const NumaNodes& nodes, const LocalGroup& group,
                             Transport& transport, const HierarchicalOptions& options);
    ~HierarchicalCommunicator() override;

    [[nodiscard]] Task& start(const Batch& batch) override;
    /// Before an alltoall: tells every member how many rows it gets (`to`, by member) and learns how many it gives
    /// (`from`): numbers of other ranks, which the caller checks. Both stay valid until the task is done.
    [[nodiscard]] Task& start_splits(std::span<const std::int64_t> to, std::span<std::int64_t> from);
    /// Why no task can go on any more.
    [[nodiscard]] const Status& failed() const;
    /// After an abort: the memory of messages under way stays for as long as the process lives.
    void abandon();

private:
    class Impl;
    std::unique_ptr<Impl> impl_;
};

}  // namespace rueda::collectives
