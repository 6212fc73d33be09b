// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The Rueda authors
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "collectives/control_plane.hpp"

namespace rueda::collectives {

/// What a rank tells the others about where it runs. Ranks share a host if everything except `pid` is equal. The boot
/// id distinguishes machines with the same name. The namespaces distinguish containers of one machine: their pids mean
/// nothing to each other, and checking whether a rank is alive needs pids. The user matters because another user's
/// memory is private.
struct RankFacts {
    std::string hostname;
    std::string boot_id;
    std::uint32_t uid = 0;
    std::uint64_t pid_namespace = 0;  ///< inode number; 0 if /proc does not show it
    std::uint64_t ipc_namespace = 0;
    std::int32_t pid = 0;
};

/// Which ranks share this rank's host, and the numbers that follow from it.
struct LocalGroup {
    int rank = 0;
    int size = 1;
    std::vector<int> members;  ///< ranks of this host, ascending; the first is the leader
    int local_rank = 0;
    int local_size = 1;
    int cross_rank = 0;  ///< this rank's position among the ranks with the same local rank
    int cross_size = 1;  ///< the number of ranks with the same local rank
    int host_index = 0;  ///< hosts are in the order of their lowest ranks
    int host_count = 1;
    std::vector<int> host_of;             ///< by rank
    std::vector<RankFacts> facts;         ///< by rank
    std::vector<std::string> host_names;  ///< by host index; made different if hostnames are equal
    std::vector<int> job_ranks;           ///< by rank; for a process set: the ranks' numbers in the job

    [[nodiscard]] int leader() const { return members.front(); }
    [[nodiscard]] int job_rank(int of) const { return job_ranks[static_cast<std::size_t>(of)]; }
    [[nodiscard]] bool is_leader() const { return local_rank == 0; }
    /// Whether all hosts have the same number of ranks.
    [[nodiscard]] bool is_homogeneous() const;
};

/// The facts about the calling process. `hostname` is the setting RUEDA_HOSTNAME; if it is empty, the machine's own
/// name is used.
[[nodiscard]] RankFacts own_facts(const std::string& hostname = "");
[[nodiscard]] Bytes encode_facts(const RankFacts& facts);
/// Parses and checks bytes of another process.
[[nodiscard]] Result<RankFacts> parse_facts(std::span<const std::byte> bytes);

/// Pure: computes the group of rank `rank` from the facts of all ranks.
[[nodiscard]] LocalGroup group_by_host(int rank, std::vector<RankFacts> facts);

/// Collective over the control plane. For `hostname` see own_facts().
[[nodiscard]] Result<LocalGroup> find_local_group(ControlPlane& control_plane, const std::string& hostname = "");

}  // namespace rueda::collectives
