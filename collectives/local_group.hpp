// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The Rueda authors
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "collectives/control_plane.hpp"

namespace rueda::collectives {

/// What a rank tells the other ranks about the place where it runs. Two ranks share a host if all fields except `pid`
/// are equal. The boot id distinguishes machines with the same name. The namespaces distinguish containers on one
/// machine: Rueda checks by pid whether a rank is alive, and a pid has no meaning in another container. The user id
/// must be equal because a process cannot use another user's memory.
struct RankFacts {
    std::string hostname;
    std::string boot_id;
    std::uint32_t uid = 0;
    std::uint64_t pid_namespace = 0;  ///< inode number of the namespace; 0 if /proc does not show it
    std::uint64_t ipc_namespace = 0;
    std::int32_t pid = 0;
};

/// Says which ranks share this rank's host, and gives the numbers (local rank, local size, …) that follow from this.
struct LocalGroup {
    int rank = 0;
    int size = 1;
    std::vector<int> members;  ///< ranks of this host, ascending; the first is the leader
    int local_rank = 0;
    int local_size = 1;
    int cross_rank = 0;  ///< this rank's position among the ranks that have the same local rank on their hosts
    int cross_size = 1;  ///< the number of ranks that have the same local rank as this rank
    int host_index = 0;  ///< this rank's host; hosts are numbered in the order of their lowest ranks
    int host_count = 1;
    std::vector<int> host_of;             ///< indexed by rank
    std::vector<RankFacts> facts;         ///< indexed by rank
    std::vector<std::string> host_names;  ///< The names of the hosts, indexed by host index. If two hostnames are
                                          ///< equal, the names contain more, so that they differ.
    std::vector<int> job_ranks;           ///< indexed by rank in a process set: the number of this rank in the job

    [[nodiscard]] int leader() const { return members.front(); }
    [[nodiscard]] int job_rank(int of) const { return job_ranks[static_cast<std::size_t>(of)]; }
    [[nodiscard]] bool is_leader() const { return local_rank == 0; }
    /// Whether all hosts have the same number of ranks.
    [[nodiscard]] bool is_homogeneous() const;
};

/// Returns the facts about the calling process. `hostname` is the setting RUEDA_HOSTNAME. If it is empty, the machine's
/// own name is used.
[[nodiscard]] RankFacts own_facts(const std::string& hostname = "");
[[nodiscard]] Bytes encode_facts(const RankFacts& facts);
/// Parses and checks the bytes that another process sent.
[[nodiscard]] Result<RankFacts> parse_facts(std::span<const std::byte> bytes);

/// Computes the group of rank `rank` from the facts of all ranks. This is a pure function.
[[nodiscard]] LocalGroup group_by_host(int rank, std::vector<RankFacts> facts);

/// Exchanges the facts of all ranks and computes this rank's group. All ranks of the control plane must call this
/// function. `hostname` has the same meaning as in own_facts().
[[nodiscard]] Result<LocalGroup> find_local_group(ControlPlane& control_plane, const std::string& hostname = "");

}  // namespace rueda::collectives
