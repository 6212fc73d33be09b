// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The Rueda authors
#pragma once

#include <vector>

#include "collectives/transport.hpp"

namespace rueda::collectives {

/// The transport of a process set. It sends over the job's transport, with separate ports. Ranks are numbered within
/// the set.
///
/// Before the set is removed, every receive in progress must be cancelled by its owner (cancel()).
///
/// Threads: one at a time, like the job's transport.
class SetTransport final : public Transport {
public:
    /// `ranks` holds, for each rank of the set, its rank in the job. `job` must outlive this object. `set` must be less
    /// than kMostSets, and must differ from the numbers of all earlier sets.
    SetTransport(Transport& job, std::vector<int> ranks, std::uint32_t set)
        : job_(job), ranks_(std::move(ranks)), set_(set) {}

    Result<Ticket> send(int rank, Port port, std::span<const std::byte> bytes) override {
        return job_.send(job_rank(rank), {port.channel, set_}, bytes);
    }
    Result<Ticket> receive(int rank, Port port, std::span<std::byte> room) override {
        return job_.receive(job_rank(rank), {port.channel, set_}, room);
    }
    Result<std::optional<std::size_t>> test(Ticket ticket) override { return job_.test(ticket); }
    Result<bool> cancel(Ticket ticket) override { return job_.cancel(ticket); }
    Status progress() override { return job_.progress(); }
    void abandon() override { job_.abandon(); }
    [[nodiscard]] bool wakes(Port port) const override { return job_.wakes({port.channel, set_}); }

private:
    [[nodiscard]] int job_rank(int rank) const { return ranks_[static_cast<std::size_t>(rank)]; }

    Transport& job_;
    std::vector<int> ranks_;
    std::uint32_t set_;
};

}  // namespace rueda::collectives
