// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The Rueda authors
#pragma once

#include <cstdint>
#include <memory>
#include <span>

#include "collectives/communicator.hpp"
#include "collectives/host/arena/arena.hpp"
#include "collectives/host/tasks/adasum_task.hpp"
#include "collectives/host/tasks/allreduce_task.hpp"
#include "collectives/host/tasks/exchange_task.hpp"
#include "collectives/host/tasks/host_set.hpp"
#include "collectives/host/tasks/scatter_task.hpp"

namespace rueda::collectives {

/// Collectives over the ranks of one host, through their shared memory. The ranks are processes, or threads of one
/// process. Threads: only the thread that drives progress may call the functions (see Communicator).
class HostCommunicator final : public Communicator {
public:
    explicit HostCommunicator(std::shared_ptr<Arena> arena);

    [[nodiscard]] Task& start(const Batch& batch) override;
    // On one host, the ranks' announcements contain the row counts (splits), so no exchange of splits is necessary. The
    // ranks exchange no messages that could fail, so failed() never reports a failure.
    [[nodiscard]] bool exchanges_splits() const override { return false; }
    [[nodiscard]] Task& start_splits(std::span<const std::int64_t> to, std::span<std::int64_t> from) override;
    [[nodiscard]] const Status& failed() const override { return no_failure_; }
    void abandon() override {}

private:
    HostSet set_;
    AllreduceTask allreduce_;
    AdasumTask adasum_;
    ExchangeTask exchange_;
    ScatterTask scatter_;
    const Status no_failure_;
};

}  // namespace rueda::collectives
