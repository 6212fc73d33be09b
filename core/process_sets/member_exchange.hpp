// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The Rueda authors
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <vector>

#include "base/status.hpp"
#include "collectives/control_plane.hpp"
#include "core/engine/engine.hpp"
#include "core/pending/set_identity.hpp"

namespace rueda::core {

/// In place of a set's number, in the messages between those who are about to become one: no set has it.
inline constexpr std::int32_t kSettingUp = -1;

/// What the members of a process set that is to be tell each other, and nobody else: by messages, which the lowest
/// member gathers and hands out. In the end it also says whose message did not come, so that nobody waits for one that
/// has gone (docs/design/0004-process-sets.md).
/// Threads: one.
class MemberExchange {
public:
    /// `ranks`: the members, ascending, this one among them. The engine outlives this.
    MemberExchange(Engine& engine, std::vector<int> ranks, int job_rank, int job_size);

    /// Element r is what rank r gave; empty for those who are no members. Members that were called with other ranks are
    /// in it as well, where they meet.
    [[nodiscard]] Result<std::vector<collectives::Bytes>> operator()(std::span<const std::byte> mine) const;

private:
    [[nodiscard]] Result<std::vector<collectives::Bytes>> gather(std::span<const std::byte> mine) const;
    [[nodiscard]] Status send(int peer, const Status& how, std::span<const std::byte> bytes) const;
    [[nodiscard]] Result<collectives::Bytes> receive(int peer) const;
    [[nodiscard]] Status run(bool sends, int peer, std::byte* memory, std::size_t bytes) const;

    Engine& engine_;
    std::shared_ptr<const SetIdentity> identity_;
    int job_rank_;
    int job_size_;
};

}  // namespace rueda::core
