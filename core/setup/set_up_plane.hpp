// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The Rueda authors
#pragma once

#include <functional>
#include <string>
#include <vector>

#include "collectives/control_plane.hpp"
#include "core/pending/set_identity.hpp"

namespace rueda::core {

/// Exchanges bytes among all ranks of the job. Element r of the result holds the bytes that rank r gave. Collective.
using JobExchange = std::function<Result<std::vector<collectives::Bytes>>(std::span<const std::byte> mine)>;

/// The control plane of a process set during its setup. The members exchange data through all ranks of the job; ranks
/// that are not members call follow(). See docs/design/0004-process-sets.md.
///
/// The setup ends for all ranks in the same step: when every member has called finish(), or one member has called
/// give_up(). If one member calls give_up(reason), the calls of the other members fail with this reason. When the setup
/// has ended, no function may be called any more. Threads: one.
class SetUpPlane final : public collectives::ControlPlane {
public:
    /// `job_rank` must be a member. `exchange` and `identity` must outlive this object.
    SetUpPlane(const JobExchange& exchange, const SetIdentity& identity, int job_rank)
        : exchange_(exchange), identity_(identity), rank_(*identity.member_of(job_rank)) {}

    [[nodiscard]] int rank() const override { return rank_; }
    [[nodiscard]] int size() const override { return static_cast<int>(identity_.ranks.size()); }
    [[nodiscard]] int job_rank(int rank) const override { return identity_.ranks[static_cast<std::size_t>(rank)]; }
    [[nodiscard]] std::string description() const override { return identity_.describe(); }
    Result<std::vector<collectives::Bytes>> allgather(std::span<const std::byte> mine) override;
    Result<collectives::Bytes> broadcast(std::span<const std::byte> mine, int root) override;
    Status barrier() override;
    void close(bool after_failure) override;

    [[nodiscard]] Status finish();
    void give_up(const Status& reason);
    /// A rank that is not a member calls this function. It takes part in the members' exchanges until the setup ends.
    /// Returns the reason if a member called give_up().
    [[nodiscard]] static Status follow(const JobExchange& exchange, const SetIdentity& identity);

private:
    const JobExchange& exchange_;
    const SetIdentity& identity_;
    int rank_;
    bool ended_ = false;
};

}  // namespace rueda::core
