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

/// The id in messages between ranks that are about to form a process set. No set has this id.
inline constexpr std::int32_t kSettingUp = -1;

/// Lets the members of a future process set exchange bytes; no other rank takes part. Each member sends its bytes to
/// the lowest member, which sends the bytes of all members to each member. If a message does not come, all members
/// learn which rank's message is missing, so no member waits for ever (docs/design/0004-process-sets.md). Threads: one.
class MemberExchange {
public:
    /// `ranks` are the members in ascending order, including this rank. `engine` must outlive this object.
    MemberExchange(Engine& engine, std::vector<int> ranks, int job_rank, int job_size);

    /// Collective over the members. Element r of the result holds the bytes of rank r; it is empty for ranks that are
    /// not members. If a member called this function with a different list of ranks, its bytes are included too,
    /// provided that its message came.
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
